package mysql

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func newClient(t testing.TB, dsn string, o Options) *lockport.Client {
	return peer.Client(t, backendOn(t, poolFor(t, dsn), o))
}

// TestPoolSeesEveryRequest: a wrapped driver with the minimum that database/sql requires carries all requests of a cycle.
func TestPoolSeesEveryRequest(t *testing.T) {
	m := servers.SharedMariaDB(t)
	p, db := tapFor(t, m.DSN())
	c := peer.Must(New(db, Options{}))(t)
	name := newName()
	require.NoError(t, peer.Holds(t, c, name).Release(t.Context()))
	p.on(nil)
	l := peer.Holds(t, c, name)
	require.Eventually(t, func() bool { return len(p.statements()) >= 4 }, peer.Soon, time.Millisecond, "want two pings")
	require.NoError(t, l.Release(t.Context()))
	said := p.statements()
	key := keyOf(name)
	require.Equal(t, "SELECT CONCAT(COALESCE(IF("+isReadOnly+",3,GET_LOCK('"+string(key)+"',0)),2))a", said[0])
	require.Contains(t, said[1], "INSERT INTO `lockport_fence`")
	for _, query := range said[2 : len(said)-1] {
		require.Regexp(t, `^SELECT CONCAT\(COALESCE\(IF\(.*,3,IS_USED_LOCK\('lockport\.session\.\w+'\)=CONNECTION_ID\(\)\),2\)\)a$`, query)
	}
	require.Equal(t, "SELECT CONCAT(COALESCE(RELEASE_LOCK('"+string(key)+"'),2))a", said[len(said)-1])
	require.NoError(t, peer.ErrOf(c.Inspect(t.Context(), name)))
	require.Contains(t, strings.Join(p.statements(), "\n"), "SELECT IS_USED_LOCK('"+string(key)+"'),")
	require.NoError(t, c.Close())
	require.Zero(t, db.Stats().OpenConnections, "a connection was left open, or went back to the pool")
	require.NoError(t, db.PingContext(t.Context()), "Close closed the caller's pool")
}

// TestSmallPools: a pool of lockport's own works at any size. A claim without a free connection fails in time.
func TestSmallPools(t *testing.T) {
	m := servers.SharedMariaDB(t)
	other := newClient(t, m.DSN(), Options{})
	for most, blockers := range []int{4, 0, 0, 1, 2} {
		p, db := tapFor(t, m.DSN())
		db.SetMaxOpenConns(most)
		b := backendOn(t, db, Options{})
		require.Equal(t, blockers, b.server.o.Blockers, most)
		c := peer.Client(t, b)
		held, name := peer.Holds(t, c, newName()), newName()
		others := []*lockport.Lock{peer.Holds(t, other, name), peer.Holds(t, other, name+"2")}
		got := []<-chan *lockport.Lock{peer.Acquiring(t, c, name), peer.Acquiring(t, c, name+"2")}
		require.Eventually(t, func() bool {
			said := strings.Join(p.statements(), "\n")
			return strings.Contains(said, string(keyOf(name))) && strings.Contains(said, string(keyOf(name+"2")))
		}, peer.Soon, time.Millisecond)
		for i, l := range others {
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, peer.Eventually(t, got[i]).Release(t.Context()))
		}
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, c.Close())
	}

	// The caller's own queries use all connections.
	db := poolFor(t, m.DSN())
	db.SetMaxOpenConns(1)
	own := peer.Must(db.Conn(t.Context()))(t)
	b := backendOn(t, db, Options{TTL: time.Second})
	require.ErrorIs(t, peer.ErrOf(b.TryAcquire(t.Context(), request(b, newName()))), driver.ErrUnavailable)
	require.NoError(t, own.Close())
	peer.Takes(t, b, request(b, newName()))
}
