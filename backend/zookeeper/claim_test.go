package zookeeper

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// go-zookeeper queues a creation while there is no connection, and sends it after its context has ended. Abandon undoes it, and is certain
// only when the creation has returned.
func TestCreationThatComesLate(t *testing.T) {
	s, raw := beside(t)
	proxy := peer.Proxy(t, s.Addr())
	b := newBackend(t, Options{TTL: 8 * time.Second}, proxy.Addr())
	name := fresh(t)
	creates(t, raw, "/"+name, world)
	b.Frees(b.Takes(request(b, name)))
	proxy.Freeze()
	req := request(b, name)
	b.sends(req)
	require.ErrorIs(t, b.Abandon(peer.Within(t, 100*time.Millisecond), req), driver.ErrUnknown, "the creation may still take effect")
	require.ErrorIs(t, b.Abandon(peer.Within(t, 100*time.Millisecond), req), driver.ErrUnknown)
	proxy.Restore()
	require.NoError(t, b.Abandon(peer.Within(t, soon), req))
	l := peer.Must(b.list("/" + name))(t)
	require.Empty(t, l.children)
	require.Equal(t, int32(4), l.stat.Cversion, "the creation was carried out, late, and undone")
	require.Nil(t, b.find(req))

	// A repeated claim waits for it too: it must not queue behind its own node.
	proxy.Freeze()
	b.sends(req)
	time.AfterFunc(100*time.Millisecond, proxy.Restore)
	b.Frees(b.Takes(req))
}

// A stopped server may have a creation in its buffers, and execute it on resuming, in a session that was given up meanwhile. Abandon is
// certain only when that session has ended.
func TestAbandonInASessionGivenUp(t *testing.T) {
	t.Parallel()
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	const ttl = time.Second
	b := newBackend(t, Options{TTL: ttl}, s.Addr())
	raw := newRaw(t, s.Addr())
	name := t.Name()
	creates(t, raw, "/"+name, world)
	b.Frees(b.Takes(request(b, name)))
	given := sessionOf(b)
	require.NoError(t, s.Freeze())
	req := request(b, name)
	b.sends(req)
	require.Eventually(t, func() bool { return sessionOf(b) != given }, soon, time.Millisecond, "the session was not given up")
	served := time.Now() // or later
	require.NoError(t, s.Thaw())
	require.Eventually(t, func() bool { return b.ready(peer.Within(t, soon)) == nil }, soon, time.Millisecond)
	require.Eventually(t, func() bool { return b.Abandon(peer.Within(t, soon), req) == nil }, soon, 10*time.Millisecond)
	require.Greater(t, time.Since(served), ttl)
	require.Never(t, func() bool { l, err := b.list("/" + name); return err != nil || len(l.children) > 0 }, ttl, ttl/10)

	// The next session is not in use yet, so the old one may live for a whole timeout.
	c := b.newClaim(req)
	c.creation = &creation{conn: new(zk.Conn)}
	b.mu.Lock()
	b.prepared = time.Time{}
	b.mu.Unlock()
	require.ErrorIs(t, c.resolveCreation(), driver.ErrUnknown)
}

// An abandoned claim is never granted, whatever was learned meanwhile. Nor is one of an ended session, nor one past the last number.
func TestNothingAbandonedIsGranted(t *testing.T) {
	s, raw := beside(t)
	b := newBackend(t, Options{}, s.Addr())
	b.Frees(b.Takes(request(b, t.Name())))
	for what, spoil := range map[string]func(*claim){
		"abandoned":     func(c *claim) { c.state = ended },
		"other session": func(c *claim) { c.node.Session = 1 },
	} {
		c := b.newClaim(request(b, t.Name()))
		_, at, err := c.place(peer.Within(t, soon))
		require.NoError(t, err)
		require.Zero(t, at)
		require.NoError(t, c.identify())
		spoil(c)
		require.ErrorIs(t, c.win(peer.Within(t, soon), false), driver.ErrUnknown, what)
		require.NoError(t, c.withdraw())
	}
	req := request(b, t.Name())
	require.Error(t, peer.ErrOf(b.acquire(peer.Within(t, soon), req, func(c *claim, ctx context.Context) error {
		b.Abandons(req)
		return c.try(ctx)
	})))
	c := b.Takes(request(b, t.Name())).(*claim) // that claim has created no node
	closed, gone, results := b.Takes(request(b, fresh(t))).(*claim), b.Takes(request(b, fresh(t))).(*claim), make([]driver.Renewal, 3)
	require.NoError(t, peer.ErrOf(raw.SetACL(closed.parent, zk.DigestACL(zk.PermAll, "alice", "secret"), -1)))
	peer.Until(t, func() bool { _ = b.delete(gone.path()); return oneOf(b.delete(gone.parent), zk.ErrNoNode) }) // or the server removes the empty parent
	b.RenewBatch(peer.Within(t, soon), []driver.Lease{closed, gone, c}, results)
	require.NoError(t, results[2].Err, "it ended because another lock was removed, or its node may not be read any more")
	b.RenewBatch(peer.Within(t, 0), []driver.Lease{c}, results)
	require.ErrorIs(t, results[0].Err, driver.ErrUnknown)
	b.mu.Lock()
	c.node.Session = 1
	b.mu.Unlock()
	require.ErrorIs(t, peer.ErrOf(b.Renews(c)), driver.ErrLost)
	require.ErrorIs(t, peer.ErrOf(b.acquire(peer.Within(t, soon), request(b, t.Name()), func(c *claim, ctx context.Context) error {
		c.creation = new(creation) // not answered; past the end of the server's counter, its node sorts before the holder's
		require.NoError(t, peer.ErrOf(b.conn.Create(c.prefix+"-2147483648", nil, zk.FlagEphemeral, b.o.ACL)))
		return c.try(ctx)
	})), driver.ErrRefused)
	b.Frees(c)
}

// Each waiter watches only the node ahead of its own: a release wakes no other.
func TestEachWatchesTheOneAhead(t *testing.T) {
	s, _ := beside(t)
	o := Options{TTL: 30 * time.Second}
	b := newBackend(t, o, s.Addr())
	first := b.Takes(request(b, t.Name())).(*claim)
	ahead, owner := first.path(), first.node.Session
	var waiting sync.WaitGroup
	t.Cleanup(waiting.Wait)
	for range 3 {
		w := newBackend(t, o, s.Addr())
		req := request(w, t.Name())
		waiting.Go(func() { _, _ = w.Wait(t.Context(), req) })
		watched := func() (watchers string) {
			_, watchers, _ = strings.Cut(peer.Must(s.FourLetter(t.Context(), "wchp"))(t), ahead+"\n") // paths, each followed by its watching sessions
			watchers, _, _ = strings.Cut(watchers, "/")
			return strings.TrimSpace(strings.Replace(watchers, fmt.Sprintf("\t%#x\n", owner), "", 1))
		}
		require.Eventually(t, func() bool { return watched() == fmt.Sprintf("%#x", sessionOf(w)) }, soon, 20*time.Millisecond)
		ahead, owner = w.find(req).path(), sessionOf(w)
	}
}

// Waiters that give up leave one watch, not one each, and none once it has fired.
func TestWaitersShareAWatch(t *testing.T) {
	s, _ := beside(t)
	proxy := peer.Proxy(t, s.Addr())
	holder, b := newBackend(t, Options{}, s.Addr()), newBackend(t, Options{TTL: 30 * time.Second}, proxy.Addr())
	lease := holder.Takes(request(holder, t.Name()))
	require.NoError(t, b.ready(peer.Within(t, soon)))
	ended := peer.Within(t, 0)
	before := proxy.Requests()
	for range 3 {
		c := b.newClaim(request(b, t.Name()))
		c.node.Session, c.node.Czxid = 1, 1 // known
		require.ErrorIs(t, c.sleep(ended, lease.(*claim).path()), context.DeadlineExceeded)
	}
	require.EqualValues(t, 1, proxy.Requests()-before, "requests of three waiters for one watch")
	holder.Frees(lease)
	peer.Until(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.watches) == 0 })
}

// A transaction is inferred from a list only if no other node was created since the claim's.
func TestDeduction(t *testing.T) {
	s, raw := beside(t)
	b, name := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr()), fresh(t)
	require.NoError(t, b.ready(peer.Within(t, soon)))
	somebody := func() {
		require.NoError(t, raw.Delete(peer.Must(raw.CreateProtectedEphemeralSequential("/"+name+"/lock-", nil, b.o.ACL))(t), -1))
	}
	for range 2 { // there was none before, and then there were some
		c := b.newClaim(request(b, name))
		_, _, err := c.place(peer.Within(t, soon))
		require.NoError(t, err)
		require.NotZero(t, c.node.Czxid)
		require.NoError(t, c.win(peer.Within(t, soon), false))
		_, czxid, err := b.get(c.path())
		require.NoError(t, err)
		require.Equal(t, uint64(czxid), c.Grant().Token)
		somebody() // before the release, after which the server may remove the empty parent
		b.Frees(c)
	}
	c := b.newClaim(request(b, name))
	require.NoError(t, peer.ErrOf(c.create(peer.Within(t, soon))))
	somebody()
	_, _, err := c.place(peer.Within(t, soon))
	require.NoError(t, err)
	require.Zero(t, c.node.Czxid, "another node came and went after it was created")
	require.NoError(t, b.delete(c.path()))
	require.NoError(t, c.withdraw(), "its node is gone, as it should be")
}

// If an earlier session of the claim left a node, which ends with that session, Abandon deletes that of this session.
func TestAbandonFindsTheLatestNode(t *testing.T) {
	s, raw := beside(t) // raw is the earlier session
	b := newBackend(t, Options{}, s.Addr())
	for range 8 { // the server lists in no order
		req := request(b, fresh(t))
		c := b.newClaim(req)
		require.NoError(t, b.ready(peer.Within(t, soon)))
		require.NoError(t, b.makePath(c.parent))
		for i := range 9 {
			require.NoError(t, peer.ErrOf(raw.Create(c.prefix, fmt.Append(nil, i), zk.FlagEphemeralSequential, b.o.ACL)))
		}
		require.NoError(t, c.createOnce(peer.Within(t, soon)))
		require.Contains(t, peer.Shows(t, b, req.Name).Owner, `"0"`, "the first has the lock")
		own := c.path()
		require.NoError(t, b.Abandon(peer.Within(t, soon), req)) // c is not registered, so its node is found by its prefix
		require.ErrorIs(t, b.confirm(own), zk.ErrNoNode)
	}
}
