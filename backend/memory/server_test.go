package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A free name is not kept: neither after a release, nor after the holders have expired, which end at once.
func TestNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, lost := NewBackend(Options{}), 0
		claim := func(req driver.Request) driver.Lease {
			req.TTL, req.Lost = time.Second, func(error) { lost++ }
			return peer.Must(b.TryAcquire(t.Context(), req))(t)
		}
		for _, req := range []driver.Request{{Name: "x", Owner: "o"}, {Name: "y", Owner: "o", Shared: true}, {Name: "x", Owner: "o", Permits: 2}} {
			require.NoError(t, claim(req).Release(t.Context()))
		}
		require.Empty(t, b.server.names)
		for _, owner := range []string{"a", "b", "c"} {
			claim(driver.Request{Name: "x", Owner: owner, Permits: 3})
		}
		time.Sleep(time.Second)
		require.Equal(t, driver.Status{Name: "x"}, peer.Must(b.Inspect(t.Context(), "x"))(t))
		require.Equal(t, 3, lost)
		require.Empty(t, b.server.names)
	})
}
