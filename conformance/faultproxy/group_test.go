package faultproxy

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
)

// kinds says of a line that it is of the kind whose name it contains.
func kinds(op conformance.Op, request []byte) bool {
	return bytes.Contains(request, []byte(op.String()))
}

func TestFaultsOfAGroup(t *testing.T) {
	ctx := t.Context()
	a, atA := setUp(t)
	b, atB := setUp(t)
	f := Group{a, b}.Faults(kinds)
	both := func(check func(*client)) {
		for _, p := range []*Proxy{a, b} {
			check(dial(t, p))
		}
	}
	count := func() int {
		n, err := f.Conns(ctx)
		require.NoError(t, err)
		return n
	}
	both(func(c *client) { c.call("hello") })
	require.Equal(t, 2, count())
	require.NoError(t, f.Cut(ctx))
	require.Zero(t, count())
	both(func(c *client) { c.call("again") })

	require.NoError(t, f.Sever(ctx))
	both((*client).wantClosed)
	f.Restore()
	require.NoError(t, f.Freeze(ctx))
	both(func(c *client) { c.send("held"); c.wantSilence() })
	f.Restore()
	eventually(t, atA.saw("held"))
	eventually(t, atB.saw("held"))

	require.NoError(t, f.Delay(ctx, 30*time.Millisecond))
	both(func(c *client) {
		start := time.Now()
		c.call("slow")
		require.GreaterOrEqual(t, time.Since(start), 30*time.Millisecond)
	})
	f.Restore()

	dial(t, a).call("one more")
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
		for i, p := range []*Proxy{a, b} {
			c := dial(t, p)
			c.call("renew")
			wantNotFired(t, done)
			c.send("acquire")
			c.wantClosed()
			if i == 0 {
				dial(t, p).call("acquire: once is enough")
			}
		}
		wantFired(t, done)
	}
}

func TestFaultsWithoutAClassifier(t *testing.T) {
	p, s := setUp(t)
	f := Group{p}.Faults(nil)
	_, err := f.DropReply(t.Context(), conformance.OpRenew)
	require.ErrorIs(t, err, conformance.ErrNoFault)
	done, err := f.DropReply(context.Background(), conformance.OpAny)
	require.NoError(t, err)
	c := dial(t, p)
	c.send("anything")
	c.wantClosed()
	wantFired(t, done)
	require.True(t, s.saw("anything")())
}
