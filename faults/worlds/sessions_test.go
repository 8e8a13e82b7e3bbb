package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/servers"
)

// A strike may be given up at any point: whatever it has left, mending has the servers serve again, and finds nothing to do when it is repeated.
func TestMend(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts servers")
	}
	type damages map[string]func(t *testing.T, p *faults.Phase)
	down := func(which func(*faults.Phase) process) func(*testing.T, *faults.Phase) {
		return func(t *testing.T, p *faults.Phase) { require.NoError(t, which(p).Kill()) }
	}
	still := func(which func(*faults.Phase) process) func(*testing.T, *faults.Phase) {
		return func(t *testing.T, p *faults.Phase) { require.NoError(t, which(p).Freeze()) }
	}
	pair := func(p *faults.Phase) *postgresPair { return p.World.Servers.(*postgresPair) }
	primary := func(p *faults.Phase) process { s, _ := pair(p).both(); return s }
	replica := func(p *faults.Phase) process { _, s := pair(p).both(); return s }
	for _, c := range []struct {
		arrangement *faults.Arrangement
		damages     damages
	}{
		{&Postgres, damages{"down": down(granting), "still": still(granting)}},
		{&MySQL, damages{"down": down(granting), "still": still(granting)}},
		{&PostgresPooler, damages{"server down": down(granting), "pooler down": down(pooler), "pooler still": still(pooler)}},
		{&PostgresFailover, damages{
			"primary down": down(primary), "replica down": down(replica),
			"lag":      func(t *testing.T, p *faults.Phase) { require.NoError(t, pair(p).lag(t.Context())) },
			"promoted": func(t *testing.T, p *faults.Phase) { require.NoError(t, pair(p).promote(t.Context())) },
		}},
		{&File, damages{"away": func(t *testing.T, p *faults.Phase) {
			_, err := folderOf(p).moveAway()
			require.NoError(t, err)
		}}},
	} {
		t.Run(c.arrangement.Name, func(t *testing.T) {
			t.Parallel()
			w, err := c.arrangement.Open(t.Context())
			servers.NeedInstalled(t, err, c.arrangement.Needs...)
			defer func() { require.NoError(t, w.Close()) }()
			serves(t, w)
			for name, damage := range c.damages {
				damage(t, &faults.Phase{World: w})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				for range 2 {
					require.NoError(t, w.Mend(ctx), name)
				}
				cancel()
				serves(t, w)
			}
		})
	}
}

// serves takes and releases a lock on a seat of w.
func serves(t *testing.T, w *faults.World) {
	t.Helper()
	seat, err := w.Seat()
	require.NoError(t, err)
	defer func() { require.NoError(t, closeAll(seat.Links...)) }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := lockport.Open(ctx, seat.URL, lockport.TTL(w.TTL), lockport.Logger(nil))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	lock, err := client.Acquire(ctx, "n")
	require.NoError(t, err)
	require.NoError(t, lock.Release(ctx))
	_, hasToken := lock.Token()
	require.Equal(t, w.Tokens, hasToken)
}
