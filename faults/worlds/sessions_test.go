package worlds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/faults"
)

// damages are what a strike that was given up can leave, by their names.
type damages map[string]func(t *testing.T, p *faults.Phase)

func down(which func(*faults.Phase) process) func(*testing.T, *faults.Phase) {
	return func(t *testing.T, p *faults.Phase) { require.NoError(t, which(p).Kill()) }
}

func still(which func(*faults.Phase) process) func(*testing.T, *faults.Phase) {
	return func(t *testing.T, p *faults.Phase) { require.NoError(t, which(p).Freeze()) }
}

// A strike may be given up at any point: whatever it has left, mending has the servers serve again, and finds nothing to do when it is repeated.
func TestMend(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts servers")
	}
	pair := func(p *faults.Phase) *postgresPair { return p.World.Servers.(*postgresPair) }
	primary := func(p *faults.Phase) process { s, _ := pair(p).both(); return s }
	replica := func(p *faults.Phase) process { _, s := pair(p).both(); return s }
	mendsAll(t, &Postgres, damages{"down": down(granting), "still": still(granting)})
	mendsAll(t, &MySQL, damages{"down": down(granting), "still": still(granting)})
	mendsAll(t, &PostgresPooler, damages{"server down": down(granting), "pooler down": down(pooler), "pooler still": still(pooler)})
	mendsAll(t, &PostgresFailover, damages{
		"primary down": down(primary), "replica down": down(replica),
		"lag":      func(t *testing.T, p *faults.Phase) { require.NoError(t, pair(p).lag(t.Context())) },
		"promoted": func(t *testing.T, p *faults.Phase) { require.NoError(t, pair(p).promote(t.Context())) },
	})
	mendsAll(t, &File, damages{"away": func(t *testing.T, p *faults.Phase) {
		_, err := folderOf(p).moveAway()
		require.NoError(t, err)
	}})
}

// mendsAll does one damage after the other to the servers of a, and mends each.
func mendsAll(t *testing.T, a *faults.Arrangement, all damages) {
	t.Run(a.Name, func(t *testing.T) {
		t.Parallel()
		w := started(t, a)
		serves(t, w)
		for name, damage := range all {
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
