package faultproxy

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
)

func TestFaultsOfAGroup(t *testing.T) {
	ctx := t.Context()
	a, atA := setUp(t)
	b, atB := setUp(t)
	kinds := func(op conformance.Op, request []byte) bool { return containing(op.String())(request) }
	f := Group{a, b}.Faults(kinds)
	both := func(check func(*client)) {
		for _, p := range []*Proxy{a, b} {
			check(dial(t, p))
		}
	}
	wantConns := func(want int) {
		n, err := f.Conns(ctx)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	both(func(c *client) { c.call("hello") })
	wantConns(2)
	require.NoError(t, f.Cut(ctx))
	wantConns(0)
	both(func(c *client) { c.call("again") })

	require.NoError(t, f.Sever(ctx))
	both((*client).wantClosed)
	f.Restore()
	require.NoError(t, f.Freeze(ctx))
	both(func(c *client) { c.send("held"); c.wantSilence() })
	f.Restore()
	atA.sees("held")
	atB.sees("held")

	require.NoError(t, f.Delay(ctx, 30*time.Millisecond))
	start := time.Now()
	both(func(c *client) { c.send("slow", "in order"); c.wantReplies("slow", "in order") })
	require.GreaterOrEqual(t, time.Since(start), 60*time.Millisecond)
	f.Restore()

	for range 5 { // two writes may have reached one proxy as one request
		dial(t, a).call("one more")
	}
	n, err := f.Requests(ctx)
	require.NoError(t, err)
	require.Equal(t, a.Requests(), n)
	require.Greater(t, a.Requests(), b.Requests())

	for _, set := range []func() (<-chan struct{}, error){
		func() (<-chan struct{}, error) { return f.DropReply(ctx, conformance.OpAcquire) },
		func() (<-chan struct{}, error) { return f.CutAfter(ctx, 2) },
	} {
		done, err := set()
		require.NoError(t, err)
		both(func(c *client) {
			c.call("renew")
			require.False(t, isClosed(done))
			c.send("acquire")
			c.wantClosed()
		})
		wantFired(t, done)
		dial(t, a).call("acquire: once is enough")
	}

	_, err = Group{a}.Faults(nil).DropReply(ctx, conformance.OpRenew)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
