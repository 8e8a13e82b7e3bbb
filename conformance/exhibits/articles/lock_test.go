package articles

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A claim that arrives after it was abandoned, as from a silent connection, is not granted.
func TestAbandonOvertakesItsClaim(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	l := onRedis(goredis.NewClient(&goredis.Options{Addr: s.Addr()}), "set-nx-px")
	t.Cleanup(func() { _ = l.Close() })
	late := driver.Request{Name: "name", Owner: "late", TTL: time.Hour}
	require.NoError(t, l.Abandon(t.Context(), late))
	_, err := l.TryAcquire(t.Context(), late)
	require.ErrorIs(t, err, driver.ErrHeld)
	_, err = l.TryAcquire(t.Context(), driver.Request{Name: "name", Owner: "other", TTL: time.Hour})
	require.NoError(t, err)
}
