package zookeeper

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestUnreachable(t *testing.T) {
	t.Parallel()
	const gone = "127.0.0.1:1"
	start := time.Now()
	peer.Refuses(t, "zookeeper://user:secret@"+gone+","+gone, lockport.ErrUnavailable, "cannot reach ZooKeeper at "+gone+", "+gone)
	require.Less(t, time.Since(start), soon/2)
	peer.Refuses(t, "zookeeper://nowhere.invalid", lockport.ErrUnavailable, "nowhere.invalid")
	b := newBackend(t, Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, zk.ErrUnknown }}, gone)
	require.ErrorIs(t, b.ready(peer.Within(t, soon)), zk.ErrUnknown, "the caller's dialer was not asked")
}

func TestCheckNotices(t *testing.T) {
	t.Parallel()
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"maxSessionTimeout=3000", "4lw.commands.whitelist=conf"}, JVM: []string{
		"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + zk.DigestACL(zk.PermAll, "super", "secret")[0].ID}})
	require.Equal(t, []string{"session-timeout", "quorum"}, peer.Notices(t, s.URL()+"?tick_time=100ms&ttl=5s"))
	raw := newRaw(t, s.Addr())
	require.NoError(t, raw.AddAuth("digest", []byte("super:secret")))
	require.NoError(t, peer.ErrOf(raw.SetACL(membersPath, zk.AuthACL(zk.PermAll), -1)))
	require.Equal(t, []string{"quorum?"}, peer.Notices(t, s.URL()+"?tick_time=400ms&ttl=2s"))
	require.Equal(t, []string{"short-ttl", "quorum?"}, peer.Notices(t, s.URL()+"?tick_time=500ms&ttl=2s"))
}

// A check whose replies were lost leaves no node.
func TestCheckWithoutReply(t *testing.T) {
	s, _ := beside(t)
	proxy := peer.Proxy(t, s.Addr())
	o := Options{Chroot: "/" + fresh(t), TTL: 30 * time.Second}
	b, direct := newBackend(t, o, proxy.Addr()), newBackend(t, o, s.Addr())
	another := direct.Takes(request(direct, checkName))
	require.NoError(t, peer.ErrOf(b.Check(peer.Within(t, soon))), "another process checks at the same time")
	direct.Frees(another)
	for _, op := range []conformance.Op{conformance.OpAcquire, conformance.OpRelease} {
		peer.Until(t, func() bool { return b.ping() == nil }) // it is connected again
		dropped := proxy.DropReply(func(p []byte) bool { return isOp(op, p) })
		require.ErrorIs(t, peer.ErrOf(b.Check(peer.Within(t, soon))), driver.ErrUnavailable)
		<-dropped
		peer.Until(t, func() bool {
			st, err := direct.Inspect(peer.Within(t, soon), checkName)
			return err == nil && !st.Held
		})
	}
}

// However often the preparation of a connection fails, the credentials are sent once: go-zookeeper repeats each sending at every reconnect.
func TestCredentialsAreSentOnce(t *testing.T) {
	t.Parallel()
	proxy := peer.Proxy(t, servers.SharedZooKeeper(t).Addr())
	b := newBackend(t, Options{TTL: 30 * time.Second, Username: "u", Password: "p"}, proxy.Addr())
	require.NoError(t, b.prepare(peer.Within(t, soon)))
	before := proxy.Requests()
	require.NoError(t, b.prepare(peer.Within(t, soon)))
	require.EqualValues(t, 1, proxy.Requests()-before, "a second preparation needs one ping")
	b.addresses = []string{"zk.example.com:2181"} // as if it were far away
	require.Equal(t, []string{"tick-time?", "quorum", "password-in-the-clear"}, peer.IDs(peer.Must(b.Check(peer.Within(t, soon)))(t)))
}

func TestJudgeMembers(t *testing.T) {
	t.Parallel()
	const voter, observer = "server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181\n", "server.4=10.0.0.4:2888:3888:observer;0.0.0.0:2181\n"
	one, two := newBackend(t, Options{}, "a"), newBackend(t, Options{}, "a", "b")
	for text, want := range map[string]string{
		"": "quorum", voter: "quorum", voter + voter: "quorum", voter + voter + observer + "version=0": "quorum",
		voter + voter + voter + "version=100000000": "endpoints",
	} {
		require.Equal(t, []string{want}, peer.IDs(one.memberNotices(text)), text)
	}
	require.Empty(t, two.memberNotices(strings.Repeat(voter, 3)))
}

func TestACL(t *testing.T) {
	s, raw := beside(t)
	top := "/" + fresh(t)
	creates(t, raw, top, world)
	at := func(user, path string) string { return "zookeeper://" + user + s.Addr() + top + path + "?ttl=2s" }
	opens := func(user, path string) *lockport.Client {
		peer.Notices(t, at(user, path)) // its check succeeds
		return peer.Client(t, peer.Opened(t, at(user, path)), lockport.TTL(testTTL))
	}
	peer.Refuses(t, at("", "/a//b"), lockport.ErrRefused, "invalid path")
	b := newBackend(t, Options{Chroot: top + "/a//b"}, s.Addr())
	require.ErrorIs(t, b.Abandon(peer.Within(t, soon), request(b, "x")), driver.ErrRefused, "a waiter would wait for ever")
	// The nodes that a user creates belong to that user.
	lock := peer.Holds(t, opens("alice:secret@", "/alice"), "x")
	require.ErrorIs(t, peer.ErrOf(opens("alice:secret@", "/alice").TryAcquire(peer.Within(t, soon), "x")), lockport.ErrHeld)
	require.NoError(t, lock.Release(t.Context()))
	for _, user := range []string{"", "bob:secret@", "alice:secretly@"} {
		peer.Refuses(t, at(user, "/alice"), lockport.ErrRefused, "the ACL does not let this user")
	}
	// Users who share a chroot do not keep each other out.
	creates(t, raw, top+"/shared", world)
	for _, user := range []string{"alice:secret@", "bob:secret@", ""} {
		peer.Notices(t, at(user, "/shared"))
	}
	// The user may not read the chroot.
	creates(t, raw, top+"/unread", zk.WorldACL(zk.PermCreate))
	peer.Holds(t, opens("", "/unread"), "x")
	// The user may not create the chroot.
	creates(t, raw, top+"/locked", zk.WorldACL(zk.PermRead))
	peer.Refuses(t, at("", "/locked/a/b"), lockport.ErrRefused, "does not let this user create "+top+"/locked/a")
	// Nodes that the user may create but not delete would stay for ever: Check reports it.
	creates(t, raw, top+"/keep", world)
	creates(t, raw, top+"/keep/"+checkName, zk.WorldACL(zk.PermRead|zk.PermCreate))
	peer.Refuses(t, at("", "/keep"), lockport.ErrRefused, "delete "+top+"/keep/")
	// The user may not list nodes.
	creates(t, raw, top+"/blind", world)
	creates(t, raw, top+"/blind/x", zk.WorldACL(zk.PermCreate|zk.PermDelete|zk.PermAdmin))
	blind := opens("", "/blind")
	peer.SaysOneLine(t, peer.ErrOf(blind.TryAcquire(peer.Within(t, soon), "x")), lockport.ErrRefused, "list")
	peer.SaysOneLine(t, peer.ErrOf(blind.Acquire(peer.Within(t, soon), "x")), lockport.ErrRefused, "list")
	require.NoError(t, peer.ErrOf(raw.SetACL(top+"/blind/x", world, -1))) // newer servers hide the node
	_, stat, err := raw.Exists(top + "/blind/x")
	require.NoError(t, err)
	require.Zero(t, stat.NumChildren, "the refused claim left its node")
	require.NoError(t, blind.Close(), "nothing is left to undo")
}
