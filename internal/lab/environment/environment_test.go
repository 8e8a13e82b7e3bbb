package environment

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	// What clients open.
	_ "github.com/lockport/lockport/backend/etcd"
	_ "github.com/lockport/lockport/backend/file"
	_ "github.com/lockport/lockport/backend/mysql"
	_ "github.com/lockport/lockport/backend/postgres"
	_ "github.com/lockport/lockport/backend/redis"
	_ "github.com/lockport/lockport/backend/redlock"
	_ "github.com/lockport/lockport/backend/zookeeper"
)

// In every environment operators can do what they are stated to, and whatever damage a fault has left, Heal makes all servers serve again, also when it is repeated.
func TestEnvironments(t *testing.T) {
	for _, e := range slices.Concat(All(), forSuites()) {
		if e.Variant {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			r := Need(t, e.Name)
			serves(t, r)
			operate(t, r)
			for what, damage := range damages(r) {
				require.NoError(t, damage(t.Context()), what)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				for range 2 {
					require.NoError(t, r.Heal(ctx), what)
				}
				cancel()
				serves(t, r)
			}
		})
	}
}

// operate takes a lock for somebody else, sees what is left, and removes it again.
func operate(t *testing.T, r *Running) {
	if r.Local {
		return // a file must be there before somebody else can lock it
	}
	err := r.Overwrite(t.Context(), "a/b")
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(t, err)
	left, err := r.Leftovers(t.Context(), "a/")
	require.NoError(t, err)
	if r.Backend != "postgres" && r.Backend != "mysql" { // by names that a client told
		require.Len(t, left, 1)
	}
	require.NoError(t, r.Remove(t.Context(), "a/b"))
	if err := r.Remove(t.Context(), "a/b"); err != nil {
		require.ErrorIs(t, err, ErrNotHeld)
	}
}

type damage = func(ctx context.Context) error

// damages are what faults can leave, by their names.
func damages(r *Running) map[string]damage {
	down := func(nodes ...Node) damage { return func(context.Context) error { return AtOnce(nodes, Node.Kill) } }
	still := func(node Node) damage { return func(context.Context) error { return node.Freeze() } }
	nodes := r.Nodes()
	all := make(map[string]damage)
	if len(nodes) > 0 {
		all["all down"], all["one still"] = down(nodes...), still(nodes[0])
	}
	switch s := r.Servers.(type) {
	case *Redis:
		if r.Name != "redis" {
			break
		}
		all["cannot save"] = s.FailToSave
		all["full"] = func(ctx context.Context) error { return s.Set(ctx, "maxmemory-policy", "allkeys-lru", "maxmemory", 1) }
	case *RedisPair:
		all["master down"], all["master still"], all["replica down"] = down(s.Master), still(s.Master), down(s.Replica)
		all["link cut"], all["promoted"] = s.Lag, s.Promote
	case *RedisSentinel:
		all["sentinel down"], all["sentinel still"] = down(s.Set.Sentinels[0]), still(s.Set.Sentinels[0])
		all["node down"], all["node still"] = down(s.Set.Nodes[0]), still(s.Set.Nodes[0])
	case *Etcd:
		if s.quorum != nil {
			all["out of space"] = func(ctx context.Context) error { return s.Fill(ctx, 1) }
			all["one cut, one down"] = func(context.Context) error { s.CutFromQuorum(2); return nodes[0].Kill() }
		}
	case *ZooKeeper:
		if s.quorum != nil {
			all["one cut, one down"] = func(context.Context) error { s.CutFromQuorum(2); return nodes[0].Kill() }
		}
	case *PooledPostgres:
		all["server down"], all["pooler down"], all["pooler still"] = down(s.Server), down(s.Pooler), still(s.Pooler)
	case *PostgresPair:
		all["primary down"], all["replica down"], all["parted"], all["promoted"] = down(s.Primary), down(s.Replica), s.Part, s.Promote
	case *Folder:
		all["away"] = func(context.Context) error { _, err := s.MoveAway(); return err }
	}
	return all
}

// serves takes and releases a lock, through each member of a cluster alone.
func serves(t *testing.T, r *Running) {
	t.Helper()
	endpoint, err := r.Endpoint()
	require.NoError(t, err)
	defer endpoint.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	alone := 1
	if r.Backend == "etcd" || r.Backend == "zookeeper" {
		alone = len(endpoint.Links)
	}
	for i := range alone {
		for k, link := range endpoint.Links {
			link.Restore()
			if alone > 1 && k != i {
				link.Cut()
			}
		}
		client, err := lockport.Open(ctx, endpoint.URL, lockport.TTL(r.TTL), lockport.Logger(nil))
		require.NoError(t, err)
		lock, err := client.Acquire(ctx, "n")
		require.NoError(t, err)
		require.NoError(t, lock.Release(ctx))
		_, hasToken := lock.Token()
		require.Equal(t, r.Tokens, hasToken)
		require.NoError(t, client.Close())
	}
}

// What an environment does not have is an error, and no fault of another.
func TestWhatIsNotThere(t *testing.T) {
	r := Need(t, "file")
	path, err := r.Folder()
	require.NoError(t, err)
	require.DirExists(t, path)
	require.Empty(t, r.Nodes())
	_, err = r.Leader(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "nobody leads")
	require.ErrorIs(t, r.Lag(t.Context()), errors.ErrUnsupported)
	require.ErrorIs(t, r.FailOver(t.Context()), errors.ErrUnsupported)
	_, err = r.LoseDisk(t.Context(), 0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = (&Redis{}).Folder()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = Named("none")
	require.ErrorContains(t, err, `no environment called "none"`)
}
