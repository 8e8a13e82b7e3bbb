package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestHeadThatDoesNotComeIsSkipped(t *testing.T) {
	t.Parallel()
	s, a, b, c := shared(t)
	name := t.Name()
	for _, end := range []func(driver.Lease){
		func(l driver.Lease) { a.Frees(l) },
		func(driver.Lease) { do(t, s, "DEL", key(name)) }, // like an expiry, which notifies nobody
	} {
		lease := a.Takes(a.Request(name))
		dead, alive := b.Request(name), c.Request(name)
		b.Waits(dead)
		b.Waits(b.Request(name)) // a waiter that never claims again
		c.Waits(alive)
		start := time.Now()
		end(lease)
		h := c.Waits(alive)
		require.Positive(t, h.ExpiresIn)
		require.LessOrEqual(t, h.ExpiresIn, 250*time.Millisecond)
		lease = c.TakesSoon(alive) // after the others missed their turns
		require.Greater(t, time.Since(start), 450*time.Millisecond)
		a.Frees(lease)
		b.Abandons(dead)
	}
	leaves(t, s, name)
}

func TestHeadStaysHeadWhenAForeignClientWasQuicker(t *testing.T) {
	t.Parallel()
	s, a, b, c := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	first, second := b.Request(name), c.Request(name)
	b.Waits(first)
	c.Waits(second)
	a.Frees(lease)
	require.Equal(t, "OK", do(t, s, "SET", key(name), "foreign", "NX", "PX", 10_000))
	b.Waits(first)
	time.Sleep(300 * time.Millisecond) // longer than a turn
	do(t, s, "DEL", key(name))
	c.Waits(second)
	b.Frees(b.Takes(first))
	c.Frees(c.Takes(second))
}
