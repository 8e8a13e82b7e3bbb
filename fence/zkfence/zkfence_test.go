package zkfence

import (
	"math"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/fencetest"
)

// The latest holder writes, and the one before does not any more; nor can it come back.
func TestOlderHolderIsRefused(t *testing.T) {
	p := newPlace(t)
	old := registers(t, p.fence, 7)
	require.NoError(t, write(t.Context(), old, p.data, "old"))
	require.Equal(t, "old", p.get(p.data))
	latest := registers(t, p.fence, 10)
	require.Equal(t, lockport.Token(10), latest.Token())
	stale(t, write(t.Context(), old, p.data, "late"), 7, 10)
	require.Equal(t, "old", p.get(p.data))
	require.NoError(t, write(t.Context(), latest, p.data, "new"))
	require.Equal(t, "new", p.get(p.data))
	_, err := p.fence.Register(t.Context(), 7)
	stale(t, err, 7, 10)
	require.NoError(t, write(t.Context(), latest, p.data, "newer"), "a refused registration changes nothing")

	// With the conditions in a multi of one's own.
	own := &zk.SetDataRequest{Path: p.data, Data: []byte("own"), Version: -1}
	_, err = p.conn.Multi(append(old.Checks(), own)...)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.Equal(t, "newer", p.get(p.data))
	_, err = p.conn.Multi(append(latest.Checks(), own)...)
	require.NoError(t, err)
	require.Equal(t, "own", p.get(p.data))
}

func TestTokens(t *testing.T) {
	p := newPlace(t)
	for _, token := range []lockport.Token{1, 9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1 << 62, 1<<63 - 1, math.MaxUint64 - 1, math.MaxUint64} {
		first, second := registers(t, p.fence, token), registers(t, p.fence, token)
		for _, g := range []*Guard{first, second, first} { // equal tokens pass
			require.NoError(t, write(t.Context(), g, p.data, "x"))
		}
		require.Equal(t, format(token), p.get(p.fence.Path()))
		children, _, err := p.conn.Children(p.fence.Path())
		require.NoError(t, err)
		require.Equal(t, []string{format(token)}, children)
		if token > 1 {
			_, err := p.fence.Register(t.Context(), token-1)
			stale(t, err, token-1, token)
		}
	}
}

// A multi has its own answers.
func TestMulti(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	g := registers(t, p.fence, 5)
	r, err := g.Multi(ctx,
		&zk.CreateRequest{Path: p.data + "/x", Acl: zk.WorldACL(zk.PermAll)}, &zk.SetDataRequest{Path: p.data, Data: []byte("1"), Version: 0})
	require.NoError(t, err)
	require.Len(t, r, 2)
	require.Equal(t, p.data+"/x", r[0].String)
	require.EqualValues(t, 1, r[1].Stat.Version)

	r, err = g.Multi(ctx, &zk.SetDataRequest{Path: p.data, Data: []byte("2"), Version: 1}, &zk.SetDataRequest{Path: p.data, Data: []byte("3"), Version: 1})
	require.ErrorIs(t, err, zk.ErrBadVersion, "the caller's own condition is no matter of the fence")
	require.NotErrorIs(t, err, fence.ErrStale)
	require.Len(t, r, 2)
	require.ErrorIs(t, r[1].Error, zk.ErrBadVersion)
	oneLine(t, err)
	_, err = g.Set(ctx, p.data+"/missing", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.NotErrorIs(t, err, fence.ErrStale)
	_, err = g.Multi(ctx, "nonsense")
	require.ErrorContains(t, err, "operation type string")
	oneLine(t, err)
	r, err = g.Multi(ctx)
	require.NoError(t, err)
	require.Empty(t, r)
	stat, err := g.Set(ctx, p.data, []byte("4"), 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, stat.Version)
	require.Equal(t, "4", p.get(p.data))
}

// A fence that is gone lets nobody write, and does not come back by a write; who registers opens it. That its versions begin anew lets nobody in.
func TestMissingFence(t *testing.T) {
	p := newPlace(t)
	registers(t, p.fence, 4)
	g := registers(t, p.fence, 5)
	p.remove(p.fence.Path())
	err := write(t.Context(), g, p.data, "x")
	require.ErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, err, "register again")
	oneLine(t, err)
	require.Empty(t, p.get(p.data))
	exists, _, err := p.conn.Exists(p.fence.Path())
	require.NoError(t, err)
	require.False(t, exists)
	for _, token := range []lockport.Token{1, 2, 3} {
		older := registers(t, p.fence, token)
		err = write(t.Context(), g, p.data, "x")
		require.ErrorIs(t, err, fence.ErrStale, "the fence went back")
		require.ErrorContains(t, err, "older")
		require.NoError(t, write(t.Context(), older, p.data, "x"))
	}
	for _, token := range []lockport.Token{6, 7} {
		registers(t, p.fence, token)
		stale(t, write(t.Context(), g, p.data, "y"), 5, token)
	}
	// Half of it is gone.
	g = registers(t, p.fence, 8)
	require.NoError(t, p.conn.Delete(g.child(), -1))
	err = write(t.Context(), g, p.data, "y")
	require.ErrorContains(t, err, "register again")
	require.NoError(t, write(t.Context(), registers(t, p.fence, 8), p.data, "y"))
}

// A node that has something else is left alone.
func TestNoFence(t *testing.T) {
	p := newPlace(t)
	g := registers(t, p.fence, 5)
	for _, name := range []string{"5", "x", "00000000000000000000", "0000000000000000005x", "99999999999999999999"} {
		other := p.fence.Path() + "/" + name
		_, err := p.conn.Create(other, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for _, token := range []lockport.Token{4, 5, 6} {
			_, err = p.fence.Register(t.Context(), token)
			require.ErrorContains(t, err, "a place of its own", "%q", name)
			require.NotErrorIs(t, err, fence.ErrStale)
			oneLine(t, err)
		}
		require.NoError(t, p.conn.Delete(other, -1))
	}
	require.NoError(t, write(t.Context(), g, p.data, "x"))
}

func TestBadInput(t *testing.T) {
	p := newPlace(t)
	_, err := New(nil, "/x", Options{})
	require.ErrorContains(t, err, "nil")
	for _, path := range []string{"", "/", "x", "/x/", "/x//y", "/zookeeper", "/zookeeper/x"} {
		_, err = New(p.conn, path, Options{})
		require.ErrorContains(t, err, "path", path)
	}
	_, err = newFence(t, p.conn, "/x/../y").Register(t.Context(), 5)
	require.ErrorIs(t, err, zk.ErrInvalidPath)
	oneLine(t, err)
	_, err = p.fence.Register(t.Context(), 0)
	require.ErrorIs(t, err, fence.ErrNoToken)
	oneLine(t, err)

	_, err = p.conn.Create(p.data+"/brief", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = newFence(t, p.conn, p.data+"/brief/fence").Register(t.Context(), 5)
	require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
	oneLine(t, err)

	m, err := memory.New(memory.Options{}, lockport.Logger(nil))
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	l, err := m.Acquire(t.Context(), "x")
	require.NoError(t, err)
	_, err = p.fence.RegisterLock(t.Context(), l)
	require.ErrorContains(t, err, "backend zookeeper")
}

func TestACL(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, p.conn.AddAuth("digest", []byte("app:secret")))
	f, err := New(p.conn, "/private/fence", Options{ACL: zk.AuthACL(zk.PermAll)})
	require.NoError(t, err)
	require.NoError(t, write(t.Context(), registers(t, f, 5), p.data, "x"))
	_, err = p.at(p.server.Addr()).Register(t.Context(), 5)
	require.NoError(t, err, "another fence")
	_, err = newFence(t, newConn(t, p.server.Addr()), "/private/fence").Register(t.Context(), 6)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.ErrorContains(t, err, "ACL")
	oneLine(t, err)
	require.NotContains(t, err.Error(), "secret")
}

// Where the lock is on the same ZooKeeper its node counts too, at once; and alone it does not count.
func TestLockOnTheSameServer(t *testing.T) {
	p := newPlace(t)
	l, l2 := fencetest.HandOff(t, newLocker(t, p.server.Addr()), "work")
	g, err := p.fence.RegisterLock(t.Context(), l)
	require.NoError(t, err)
	require.NoError(t, write(t.Context(), g, p.data, "held"))

	// Handed on inside the process the node stays, and the hold before is refused all the same.
	g2, err := p.fence.RegisterLock(t.Context(), l2)
	require.NoError(t, err)
	require.Equal(t, g.lock, g2.lock)
	stale(t, write(t.Context(), g, p.data, "late"), g.Token(), g2.Token())
	require.NoError(t, write(t.Context(), g2, p.data, "second"))
	_, err = p.fence.RegisterLock(t.Context(), l2)
	require.NoError(t, err, "again")

	// Once it is released, it is refused before anybody else has registered.
	require.NoError(t, l2.Release(t.Context()))
	err = write(t.Context(), g2, p.data, "late")
	require.ErrorIs(t, err, lockport.ErrLost)
	require.ErrorIs(t, err, fence.ErrStale)
	oneLine(t, err)
	_, err = p.fence.RegisterLock(t.Context(), l2)
	require.ErrorIs(t, err, lockport.ErrLost)
	require.Equal(t, "second", p.get(p.data))
	newer := registers(t, p.fence, g2.Token()+1)
	_, err = p.fence.RegisterLock(t.Context(), l2)
	stale(t, err, g2.Token(), newer.Token())
	stale(t, write(t.Context(), g2, p.data, "late"), g2.Token(), newer.Token())
}
