package etcdfence

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

// both calls f with the installed etcd and with a current one.
func both(t *testing.T, f func(t *testing.T, p *place)) {
	for version, o := range map[string]servers.EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(version, func(t *testing.T) { f(t, newPlace(t, servers.NeedEtcd(t, o))) })
	}
}

// The latest holder writes, and the one before does not any more; nor can it come back.
func TestOlderHolderIsRefused(t *testing.T) {
	both(t, func(t *testing.T, p *place) {
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

		// With the conditions in a transaction of one's own.
		for g, can := range map[*Guard]bool{old: false, latest: true} {
			r, err := p.client.Txn(t.Context()).If(g.Cmps()...).Then(clientv3.OpPut(p.data, "own")).Commit()
			require.NoError(t, err)
			require.Equal(t, can, r.Succeeded)
		}
	})
}

func TestTokens(t *testing.T) {
	p := newPlace(t, servers.NeedEtcd(t, servers.EtcdOptions{}))
	for _, token := range []lockport.Token{1, 9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1 << 62, 1<<63 - 1, math.MaxUint64 - 1, math.MaxUint64} {
		first, second := registers(t, p.fence, token), registers(t, p.fence, token)
		for _, g := range []*Guard{first, second, first} { // equal tokens pass
			require.NoError(t, write(t.Context(), g, p.data, "x"))
		}
		require.Equal(t, format(token), p.get(p.fence.Key()))
		if token > 1 {
			_, err := p.fence.Register(t.Context(), token-1)
			stale(t, err, token-1, token)
		}
	}
}

// A transaction has its own conditions, and its own answer.
func TestTxn(t *testing.T) {
	both(t, func(t *testing.T, p *place) {
		ctx := t.Context()
		g := registers(t, p.fence, 5)
		p.put(p.data, "100")
		swap := func(from, to string) (*clientv3.TxnResponse, error) {
			return g.Txn(ctx).
				If(clientv3.Compare(clientv3.Value(p.data), "=", from)).
				Then(clientv3.OpPut(p.data, to), clientv3.OpGet(p.data)).
				Else(clientv3.OpGet(p.data)).Commit()
		}
		r, err := swap("100", "90")
		require.NoError(t, err)
		require.True(t, r.Succeeded)
		require.Len(t, r.Responses, 2)
		require.Equal(t, "90", string(r.Responses[1].GetResponseRange().Kvs[0].Value))
		require.NotZero(t, r.Header.Revision)
		r, err = swap("100", "80")
		require.NoError(t, err, "the caller's own condition is no matter of the fence")
		require.False(t, r.Succeeded)
		require.Equal(t, "90", string(r.Responses[0].GetResponseRange().Kvs[0].Value))
		r, err = g.Txn(ctx).Commit()
		require.NoError(t, err)
		require.True(t, r.Succeeded)
		_, err = g.Commit(ctx, clientv3.OpPut(p.data, "1"), clientv3.OpPut(p.data, "2"))
		require.ErrorIs(t, err, rpctypes.ErrDuplicateKey)
		oneLine(t, err)
		registers(t, p.fence, 6)
		for _, from := range []string{"100", "90"} {
			_, err = swap(from, "70")
			stale(t, err, 5, 6)
		}
		require.Equal(t, "90", p.get(p.data))
	})
}

// A fence that is gone lets nobody write, and does not come back by a write; who registers opens it.
func TestMissingFence(t *testing.T) {
	p := newPlace(t, servers.NeedEtcd(t, servers.EtcdOptions{}))
	g := registers(t, p.fence, 5)
	p.remove(p.fence.Key())
	err := write(t.Context(), g, p.data, "x")
	require.ErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, err, "register again")
	oneLine(t, err)
	require.Empty(t, p.get(p.data))
	require.Empty(t, p.get(p.fence.Key()))
	older := registers(t, p.fence, 4)
	err = write(t.Context(), g, p.data, "x")
	require.ErrorIs(t, err, fence.ErrStale, "the fence went back")
	require.ErrorContains(t, err, "older")
	require.NoError(t, write(t.Context(), older, p.data, "x"))
}

// A key that has something else is left alone.
func TestNoFence(t *testing.T) {
	p := newPlace(t, servers.NeedEtcd(t, servers.EtcdOptions{}))
	for _, value := range []string{"", "0", "5", "x", "!", "00000000000000000000", "0000000000000000005x", "-0000000000000000005", "9999999999999999999999"} {
		p.put(p.fence.Key(), value)
		_, err := p.fence.Register(t.Context(), 5)
		require.ErrorContains(t, err, "a place of its own", "%q", value)
		require.NotErrorIs(t, err, fence.ErrStale)
		oneLine(t, err)
		require.Equal(t, value, p.get(p.fence.Key()))
	}
	p.remove(p.fence.Key())
	g := registers(t, p.fence, 5)
	p.put(p.fence.Key(), "x\n")
	err := write(t.Context(), g, p.data, "x")
	require.ErrorContains(t, err, "a place of its own")
	oneLine(t, err)
	require.Empty(t, p.get(p.data))
}

func TestBadInput(t *testing.T) {
	p := newPlace(t, servers.NeedEtcd(t, servers.EtcdOptions{}))
	_, err := New(nil, "k")
	require.ErrorContains(t, err, "nil")
	_, err = New(new(clientv3.Client), "k")
	require.ErrorContains(t, err, "clientv3.New")
	_, err = New(p.client, "")
	require.ErrorContains(t, err, "empty")
	_, err = p.fence.Register(t.Context(), 0)
	require.ErrorIs(t, err, fence.ErrNoToken)
	oneLine(t, err)

	m, err := memory.New(memory.Options{}, lockport.Logger(nil))
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	l, err := m.Acquire(t.Context(), "x")
	require.NoError(t, err)
	_, err = p.fence.RegisterLock(t.Context(), l)
	require.ErrorContains(t, err, "backend etcd")
}

// Where the lock is on the same etcd its key counts too, at once; and alone it does not count.
func TestLockOnTheSameServer(t *testing.T) {
	both(t, func(t *testing.T, p *place) {
		l, l2 := fencetest.HandOff(t, newLocker(t, p.client), p.data)
		g, err := p.fence.RegisterLock(t.Context(), l)
		require.NoError(t, err)
		require.NoError(t, write(t.Context(), g, p.data, "held"))

		// Handed on inside the process the key stays, and the hold before is refused all the same.
		g2, err := p.fence.RegisterLock(t.Context(), l2)
		require.NoError(t, err)
		require.Equal(t, g.lock, g2.lock)
		stale(t, write(t.Context(), g, p.data, "late"), g.Token(), g2.Token())
		require.NoError(t, write(t.Context(), g2, p.data, "second"))

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
		p.remove(p.fence.Key())
		_, err = p.fence.RegisterLock(t.Context(), l2)
		require.ErrorIs(t, err, lockport.ErrLost)
		require.Empty(t, p.get(p.fence.Key()))
	})
}
