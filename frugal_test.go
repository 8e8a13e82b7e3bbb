package lockport_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// thin is a backend that keeps nothing, so a measurement shows the client alone. It grants every claim: use it with one client only.
type thin struct{ grants atomic.Uint64 }

var _ driver.Backend = (*thin)(nil)

func (b *thin) TryAcquire(_ context.Context, req driver.Request) (driver.Lease, error) {
	return &thinLease{driver.Grant{Token: b.grants.Add(1), Until: time.Now().Add(req.TTL)}}, nil
}

func (b *thin) Abandon(context.Context, driver.Request) error { return nil }

func (b *thin) Capabilities() driver.Capabilities {
	return driver.Capabilities{Backend: "thin", Ends: driver.EndsTTL, Token: driver.TokenData, Prompt: true}
}

func (b *thin) Close() error { return nil }

type thinLease struct{ grant driver.Grant }

func (l *thinLease) Grant() driver.Grant                      { return l.grant }
func (l *thinLease) Renew(context.Context) (time.Time, error) { return l.grant.Until, nil }
func (l *thinLease) Release(context.Context) error            { return nil }

func thinClient(tb testing.TB) *lockport.Client {
	c, err := lockport.New(new(thin), lockport.TTL(time.Hour), lockport.Logger(nil))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// A closed client leaves nothing that keeps it in memory.
func TestCloseLeavesNothing(t *testing.T) {
	c, err := lockport.New(new(thin), lockport.TTL(time.Hour))
	require.NoError(t, err)
	l, err := c.Acquire(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	require.NoError(t, c.Close())
	left := weak.Make(c)
	c, l = nil, nil
	require.Eventually(t, func() bool { runtime.GC(); return left.Value() == nil }, 10*time.Second, time.Millisecond)
}

// It allocates the queue of the name, its caller, the claim with its hold, its owner id, two callbacks, and for each request a context, which is
// five. The lease is the driver's.
func TestAllocationsOfACycle(t *testing.T) {
	c := thinClient(t)
	cycles := testing.AllocsPerRun(1000, func() {
		l, err := c.Acquire(t.Context(), "a")
		if err != nil || l.Release(t.Context()) != nil {
			t.Fatal("not acquired, or not released")
		}
	})
	require.LessOrEqual(t, cycles, 18.0, "one for the lease")
}
