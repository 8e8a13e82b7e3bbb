package zookeeper

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// lone is a backend that alone uses a lock, whose own connection counts.
type lone struct {
	t     *testing.T
	s     *servers.ZooKeeper
	raw   *zk.Conn // somebody else
	b     *Backend
	proxy *faultproxy.Proxy
	name  string
	last  int64 // number that it had
}

func newLone(t *testing.T) *lone {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{JVM: []string{"-Dznode.container.checkIntervalMs=3600000"}})
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	x := &lone{t: t, s: s, raw: newRaw(t, s.Addr()), b: newBackend(t, Options{TTL: 30 * time.Second}, proxy.Addr()), proxy: proxy, name: "lone"}
	x.cycles(5)
	return x
}

// cycles takes the lock and frees it, n times.
func (x *lone) cycles(n int) {
	x.t.Helper()
	for range n {
		c := takes(x.t, x.b, request(x.b, x.name))
		x.last, _ = numberOf(c.node())
		frees(x.t, c)
	}
}

// received is how many requests the server has received on the backend's connection.
func (x *lone) received() int {
	x.t.Helper()
	answer, err := x.s.FourLetter(x.t.Context(), "cons")
	require.NoError(x.t, err)
	l, err := x.b.current()
	require.NoError(x.t, err)
	ours := regexp.MustCompile(fmt.Sprintf("recved=([0-9]+),sent=[0-9]+,sid=0x%x,", uint64(l.id()))).FindStringSubmatch(answer)
	require.NotNil(x.t, ours, answer)
	n, err := strconv.Atoi(ours[1])
	require.NoError(x.t, err)
	return n
}

// requests are those of n further cycles.
func (x *lone) requests(n int) int {
	x.t.Helper()
	before := x.received()
	x.cycles(n)
	return x.received() - before
}

// create creates somebody else's child.
func (x *lone) create(child string, flags int32) (path string) {
	x.t.Helper()
	path, err := x.raw.Create("/"+x.name+"/"+child, []byte("else"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(x.t, err)
	return path
}

// isHeld checks that somebody else has the lock.
func (x *lone) isHeld() {
	x.t.Helper()
	_, err := try(x.b, request(x.b, x.name))
	require.ErrorIs(x.t, err, driver.ErrHeld)
}

// Who alone uses a lock asks for no list, until somebody else has come, and again after that.
func TestLoneCycleIsTwoRequests(t *testing.T) {
	t.Parallel()
	x := newLone(t)
	require.Equal(t, 20, x.requests(10))
	for range 2 {
		path := x.create("_c_else-lock-", zk.FlagEphemeralSequential)
		x.isHeld()
		require.NoError(t, x.raw.Delete(path, -1))
		x.cycles(3)
		require.Equal(t, 20, x.requests(10))
	}
	// Somebody who came and went is not to be seen in the list, but in the number.
	require.NoError(t, x.raw.Delete(x.create("_c_else-lock-", zk.FlagEphemeralSequential), -1))
	require.Equal(t, 2*10+2, x.requests(10), "one list since the number does not follow, and one until one does")
}

// Whatever is created beside is seen: also what has no number, and what came while the connection was lost.
func TestLoneCycleSeesEverybody(t *testing.T) {
	t.Parallel()
	for _, child := range []string{"lock-0", "_c_else-lock-0000000000", "0"} {
		t.Run(child, func(t *testing.T) {
			x := newLone(t)
			path := x.create(child, zk.FlagEphemeral)
			x.isHeld()
			require.NoError(t, x.raw.Delete(path, -1))
			x.cycles(5)
			x.proxy.Cut()
			x.create(child, zk.FlagEphemeral)
			x.proxy.Restore()
			require.Eventually(t, func() bool {
				_, err := x.b.live(t.Context())
				return err == nil
			}, soon, time.Millisecond)
			x.isHeld()
		})
	}
}

// A lock's node that was removed and made again begins to count anew: the number that follows our last one proves nothing then.
func TestLoneCycleIsNotMisledByANewNode(t *testing.T) {
	t.Parallel()
	x := newLone(t)
	require.NoError(t, x.raw.Delete("/"+x.name, -1))
	_, err := x.raw.Create("/"+x.name, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	var path string
	for n := int64(0); n <= x.last; n++ {
		if path != "" {
			require.NoError(t, x.raw.Delete(path, -1))
		}
		path = x.create("_c_else-lock-", zk.FlagEphemeralSequential)
	}
	require.True(t, strings.HasSuffix(path, fmt.Sprintf("%010d", x.last)), "our next node will have the number after our last one's")
	x.isHeld()
	require.NoError(t, x.raw.Delete(path, -1))
	x.cycles(5)
	require.Equal(t, 20, x.requests(10))
}

// What a number proves, and what it does not.
func TestRecords(t *testing.T) {
	t.Parallel()
	const parent, other = "/x", "/y"
	node := func(n int) string { return fmt.Sprintf("%s/_c_g%d-lock-%010d", parent, n, n) }
	tap, server := quietLife(time.Second)
	defer func() { _, _ = tap.Close(), server.Close() }()
	arm := func(err error) {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		tap.armed(parent, err)
	}
	event := func(path string) { tap.event(body{left: frame{}.int(2).int(3).string(path)}) }
	alone := func(n int) { tap.listed(parent, node(n), true); tap.freed(parent, node(n)) }
	expects := func(list, watch bool) {
		t.Helper()
		l, w := tap.expects(parent)
		require.Equal(t, []bool{list, watch}, []bool{l, w})
	}
	arm(nil)
	expects(true, false)
	alone(1)
	expects(true, false)
	alone(3)
	expects(true, false)
	alone(4)
	expects(true, true) // two followed each other
	require.False(t, tap.follows(parent, node(5)), "it is not watched")
	arm(zk.ErrNoNode)
	expects(true, true)
	require.False(t, tap.follows(parent, node(5)))
	arm(nil)
	require.False(t, tap.follows(parent, node(5)), "what was before the watch does not count")
	alone(5)
	alone(6)
	expects(false, false)
	require.True(t, tap.follows(parent, node(7)))
	require.False(t, tap.follows(parent, node(8)), "the one before is not known to be deleted")
	expects(true, false)
	tap.freed(parent, node(6))
	require.False(t, tap.follows(parent, node(8)))
	tap.freed(parent, node(7))
	require.False(t, tap.follows(parent, node(9)), "somebody else has number 8")
	require.False(t, tap.follows(parent, node(7)))
	require.True(t, tap.follows(parent, node(8)))
	tap.listed(parent, node(9), false)
	tap.freed(parent, node(8))
	tap.freed(parent, node(9))
	require.False(t, tap.follows(parent, node(9)), "it was not alone")
	require.False(t, tap.follows(parent, node(10)))
	alone(10)
	expects(true, false)
	alone(11)
	expects(false, false)
	event(other)
	expects(false, false)
	tap.records[parent].at = time.Now().Add(-recordFor)
	expects(true, false)
	require.False(t, tap.follows(parent, node(12)), "it was deleted too long ago")
	tap.freed(parent, node(11))
	expects(false, false)
	event(parent)
	expects(true, false)
	require.False(t, tap.follows(parent, node(12)), "the lock's node has gone")

	for i := range 2 * maxRecords {
		tap.listed(fmt.Sprint("/", i), fmt.Sprintf("/%d/_c_g-lock-%010d", i, 0), true)
	}
	require.Len(t, tap.records, maxRecords)
}
