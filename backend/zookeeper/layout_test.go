package zookeeper

import (
	"fmt"
	"math"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// The nodes are those that Curator's InterProcessMutex writes and reads.
func TestLayout(t *testing.T) {
	s, raw := beside(t)
	top := "/" + fresh(t)
	b := newBackend(t, Options{Chroot: top + "/locks"}, s.Addr())
	const name = "a/b é"
	req := request(b, name)
	lease := b.Takes(req)
	children := peer.Must(b.list(top + "/locks/a%2Fb%20%C3%A9"))(t).children
	require.Len(t, children, 1)
	require.Regexp(t, regexp.MustCompile(`^_c_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}-lock-0000000000$`), children[0])
	path := top + "/locks/a%2Fb%20%C3%A9/" + children[0]
	data, stat, err := raw.Get(path)
	require.NoError(t, err)
	require.Equal(t, []any{req.Owner, sessionOf(b), lease.Grant().Token}, []any{string(data), stat.EphemeralOwner, uint64(stat.Czxid)})
	var node Node
	require.True(t, lease.(driver.LeaseAs).As(&node))
	require.Equal(t, Node{Path: path, Session: stat.EphemeralOwner, Czxid: stat.Czxid}, node)
	b.Frees(lease)
	// All are containers, which the server removes.
	require.Eventually(t, func() bool {
		gone, _, err := raw.Exists(top)
		require.NoError(t, err)
		return !gone
	}, 2*soon, 50*time.Millisecond)
	b.Frees(b.Takes(request(b, name)))
}

// Foreign clients of the same layout hold and wait, and are reported as foreign.
func TestForeign(t *testing.T) {
	s, raw := beside(t)
	c, b := newClient(t, Options{}, s.Addr())
	theirs := zk.NewLock(raw, "/"+t.Name(), world)
	require.NoError(t, theirs.LockWithData([]byte("10.1.2.3")))
	require.ErrorIs(t, peer.ErrOf(c.TryAcquire(peer.Within(t, soon), t.Name())), lockport.ErrHeld)
	require.Empty(t, b.claims)
	st := peer.Shows(t, b, t.Name())
	require.True(t, st.Held && st.Foreign)
	require.Contains(t, st.Owner, `"10.1.2.3" _c_`)
	l := peer.Must(b.list("/" + t.Name()))(t)
	holder := "/" + t.Name() + "/" + l.children[0]
	require.NoError(t, peer.ErrOf(raw.SetACL(holder, zk.WorldACL(zk.PermAdmin), -1))) // it cannot be read
	granted := peer.Acquiring(t, c, t.Name())
	peer.Until(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.watches) == 1 }) // it was told to wait
	l = peer.Must(b.list("/" + t.Name()))(t)
	inOrder(l.children)
	require.NoError(t, b.delete("/"+t.Name()+"/"+l.children[1])) // the waiter starts over
	require.NoError(t, theirs.Unlock())
	ours := peer.Eventually(t, granted)
	locked := make(chan error, 1)
	go func() { locked <- zk.NewLock(raw, "/"+t.Name(), world).Lock() }()
	waits(t, b, t.Name(), 2)
	require.NoError(t, ours.Release(t.Context()), "it was held until now")
	require.NoError(t, <-locked)
	// Their locks can be broken.
	require.ErrorIs(t, b.Break(peer.Within(t, soon), t.Name(), "somebody"), driver.ErrLost)
	require.NoError(t, b.Break(peer.Within(t, soon), t.Name(), peer.Shows(t, b, t.Name()).Owner))
	b.Frees(b.Takes(request(b, t.Name())))
}

// Other programs' nodes beside the locks are not listed. One that may not be read hides no lock.
func TestNodesOfOtherPrograms(t *testing.T) {
	s, raw := beside(t)
	chroot := "/" + fresh(t)
	for _, path := range []string{"", "/brokers", "/brokers/ids", "/brokers/topics"} {
		creates(t, raw, chroot+path, world)
	}
	creates(t, raw, chroot+"/hidden", zk.DigestACL(zk.PermAll, "alice", "secret"))
	b := newBackend(t, Options{Chroot: chroot}, s.Addr())
	require.Equal(t, driver.Status{Name: "brokers"}, peer.Shows(t, b, "brokers"))
	require.Empty(t, peer.Lists(t, b, ""))

	// Such a node can still be a lock's. At the root there are nodes of the server's own.
	for b, name := range map[*node]string{b: "brokers", newBackend(t, Options{}, s.Addr()): "zookeeper"} {
		for _, permits := range []int{0, 2} {
			lease := b.Takes(peer.Permit(request(b, name), permits))
			all := peer.Lists(t, b, name)
			require.Len(t, all, 1)
			require.Equal(t, []any{name, permits, 0, false}, []any{all[0].Name, all[0].Permits, all[0].Waiters, all[0].Foreign})
			b.Frees(lease)
		}
	}
	peer.SaysOneLine(t, peer.ErrOf(b.Inspect(peer.Within(t, soon), "hidden")), lockport.ErrRefused, "/hidden")
	require.ErrorIs(t, b.Break(peer.Within(t, soon), "hidden", "somebody"), driver.ErrRefused)
	require.ErrorIs(t, peer.ErrOf(newBackend(t, Options{Chroot: chroot + "/hidden"}, s.Addr()).List(peer.Within(t, soon), "")), driver.ErrRefused)
	require.Empty(t, peer.Lists(t, newBackend(t, Options{Chroot: chroot + "/none"}, s.Addr()), ""))
}

// A change of a node's data does not end its hold. Its deletion does, soon, also while many newer holds wait for their watches.
func TestNodeDataChanged(t *testing.T) {
	s, raw := beside(t)
	proxy := peer.Proxy(t, s.Addr())
	c, b := newClient(t, Options{TTL: time.Minute}, proxy.Addr()) // renewals check the node too, but come too late
	lock := peer.Holds(t, c, t.Name())
	var node Node
	require.True(t, lock.As(&node))
	watched := func() (n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.claims {
			if c.state == held && c.watch != nil && len(c.watch) == 0 {
				n++
			}
		}
		return n
	}
	peer.Until(t, func() bool { return watched() == 1 })
	for range 3 {
		require.NoError(t, peer.ErrOf(raw.Set(node.Path, []byte("10.1.2.3"), -1)))
		peer.Until(t, func() bool { return b.ping() == nil && watched() == 1 }) // an event precedes later answers
	}
	require.NoError(t, lock.Err())
	const delay = 100 * time.Millisecond
	proxy.Delay(delay)
	var burst sync.WaitGroup
	for i := range 400 {
		burst.Go(func() { _, _ = c.TryAcquire(peer.Within(t, soon), fmt.Sprint(t.Name(), i)) })
	}
	burst.Wait()
	peer.Until(t, func() bool { return watched() > 1 })
	deleted := time.Now()
	require.NoError(t, raw.Delete(node.Path, -1))
	<-lock.Lost()
	require.Less(t, time.Since(deleted), 2*b.Capabilities().RemovalNotice(0)+delay) // this process may stall
	proxy.Delay(0)
}

// Golden: other clients and older versions use the same nodes.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]string{
		"nightly-report": "nightly-report", "a_B-9": "a_B-9", "zookeeper": "zookeeper",
		"a/b": "a%2Fb", ".": "%2E", "..": "%2E%2E", "100%": "100%25", " ": "%20", "\x00": "%00",
		"é": "%C3%A9", "日本": "%E6%97%A5%E6%9C%AC",
	} {
		back, ok := decodeName(node)
		require.Equal(t, []any{node, name, true}, []any{encodeName(name), back, ok})
	}
	for _, node := range []string{"", "%", "%2", "%2f", "%41", "a.b", "é", "%zz"} {
		_, ok := decodeName(node)
		require.False(t, ok, node)
	}
}

// A claim with another number of permits does not make the others fail.
func TestOtherNumberOfPermits(t *testing.T) {
	t.Parallel()
	var all []string
	for i, n := range []int{5, 3, 5} {
		all = append(all, fmt.Sprintf("%s%010d", nodePrefix(driver.Request{Owner: "00112233445566778899aabbccddeeff:h", Permits: n}, false), i))
	}
	c := &claim{parent: "/x", req: driver.Request{Permits: 5}}
	require.Equal(t, "/x/"+all[1], peer.Must(c.waitsFor(all, 2))(t))
	c.req.Permits = 3
	require.ErrorIs(t, peer.ErrOf(c.waitsFor(all, 1)), driver.ErrInvalidOption)
}

func TestNodePrefix(t *testing.T) {
	t.Parallel()
	owner := "00112233445566778899aabbccddeeff:host/1/label/x"
	for req, want := range map[*driver.Request][3]string{ // without and with ReadWriteLock, and the mode
		{Owner: owner}:               {"lock-", "__WRIT__", ""},
		{Owner: owner, Shared: true}: {"read-lock-", "__READ__", readMode},
		{Owner: owner, Permits: 8}:   {"8of-lock-", "8of-lock-", "8" + permitMode},
	} {
		for i, prefix := range want[:2] {
			prefix = "_c_796e6fa4-34cf-8a0d-6aaf-f3a419e6d38e-" + prefix
			require.Equal(t, prefix, nodePrefix(*req, i == 1))
			require.Equal(t, want[2], modeOfNode(prefix+"0000000007"))
			require.Equal(t, "0000000007", sortKey(prefix+"0000000007"))
			require.Equal(t, req.Permits, permitsOf(want[2]))
		}
	}
	require.NotEqual(t, ownerPrefix(owner), ownerPrefix(owner+"y"))
	require.Equal(t, "a%2Fb", parentName(driver.Request{Name: "a/b", Shared: true}))
	require.Equal(t, "a%2Fb.permits", parentName(driver.Request{Name: "a/b", Permits: 8}))
	for _, foreign := range []string{"lock-0000000001", "_c_f-lock-0000000010", "f__rlock__0000000001", "zzz", "read-lock-0000000001", "x-796e6fa4-34cf-8a0d-6aaf-f3a419e6d38e-read-lock-0000000001"} {
		require.Empty(t, modeOfNode(foreign))
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	children := []string{"_c_f-lock-0000000010", "_c_a-lock-0000000011", "lock-0000000009", "zzz", "_c_b-lock-0000000008", "a-lock-x-lock-0000000001", "f__lock__0000000007", "0__rlock__0000000012"}
	inOrder(children)
	require.Equal(t, []string{
		"a-lock-x-lock-0000000001", "f__lock__0000000007", "_c_b-lock-0000000008", "lock-0000000009", "_c_f-lock-0000000010", "_c_a-lock-0000000011", "0__rlock__0000000012", "zzz",
	}, children)
}

func TestSequenceUsedUp(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]bool{
		"0000000000": false, "2100000000": false, fmt.Sprint(lastSequence): false,
		fmt.Sprint(lastSequence + 1): true, fmt.Sprint(math.MaxInt32): true, "-000000001": true, "-2147483648": true, "9999999999": true,
	} {
		require.Equal(t, want, exhausted("_c_x-lock-"+number), number)
	}
}
