package zookeeper

import (
	"reflect"
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
	_, err := lockport.Open(within(t, soon), "zookeeper://user:secret@"+gone+","+gone)
	peer.SaysOneLine(t, err, lockport.ErrUnavailable, "none of 2 servers can be reached")
	require.Less(t, time.Since(start), soon/2)
	_, err = lockport.Open(within(t, soon), "zookeeper://nowhere.invalid")
	peer.SaysOneLine(t, err, lockport.ErrUnavailable, "nowhere.invalid")
}

// found returns the IDs of the servers' notices.
func found(t *testing.T, o Options, addrs ...string) []string {
	t.Helper()
	o.TickTime = 100 * time.Millisecond
	notices, err := newBackend(t, o, addrs...).Check(within(t, soon))
	require.NoError(t, err)
	return peer.IDs(notices)
}

func TestCheckNotices(t *testing.T) {
	t.Parallel()
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"maxSessionTimeout=3000", "4lw.commands.whitelist=conf"}, JVM: []string{
		"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + zk.DigestACL(zk.PermAll, "super", "secret")[0].ID}})
	require.Equal(t, []string{"session-timeout", "quorum"}, found(t, Options{TTL: 5 * time.Second}, s.Addr()))
	raw := newRaw(t, s.Addr())
	require.NoError(t, raw.AddAuth("digest", []byte("super:secret")))
	_, err := raw.SetACL(membersPath, zk.AuthACL(zk.PermAll), -1)
	require.NoError(t, err)
	require.Equal(t, []string{"quorum?"}, found(t, Options{TTL: 2 * time.Second}, s.Addr()))
}

// A check whose replies were lost leaves no node.
func TestCheckWithoutReply(t *testing.T) {
	s, _ := beside(t)
	proxy := peer.Proxy(t, s.Addr())
	o := Options{Chroot: "/" + fresh(t), TTL: 30 * time.Second}
	b, direct := newBackend(t, o, proxy.Addr()), newBackend(t, o, s.Addr())
	_, err := b.Check(within(t, soon))
	require.NoError(t, err)
	for _, op := range []conformance.Op{conformance.OpAcquire, conformance.OpRelease} {
		peer.Until(t, func() bool { return b.ping() == nil }) // it is connected again
		dropped := proxy.DropReply(func(p []byte) bool { return isOp(op, p) })
		_, err := b.Check(within(t, soon))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		<-dropped
		peer.Until(t, func() bool {
			st, err := direct.Inspect(within(t, soon), checkName)
			return err == nil && !st.Held
		})
	}
}

// However often the preparation of a connection fails, go-zookeeper keeps the credentials once.
func TestCredentialsAreKeptOnce(t *testing.T) {
	t.Parallel()
	b := newBackend(t, Options{Username: "u", Password: "p"}, servers.SharedZooKeeper(t).Addr())
	for range 3 {
		require.NoError(t, b.prepare(within(t, soon)))
	}
	require.Equal(t, 1, reflect.ValueOf(b.conn).Elem().FieldByName("creds").Len())
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
	_, err := raw.Create(top, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	open := func(user, path string) (*lockport.Client, error) {
		c, err := lockport.Open(within(t, soon), "zookeeper://"+user+s.Addr()+top+path+"?ttl=2s")
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return c, err
	}
	_, err = open("", "/a//b")
	peer.SaysOneLine(t, err, lockport.ErrRefused, "invalid path")
	// The nodes that a user creates belong to that user.
	mine, err := open("alice:secret@", "/alice")
	require.NoError(t, err)
	lock := peer.Holds(t, mine, "x")
	same, err := open("alice:secret@", "/alice")
	require.NoError(t, err)
	_, err = same.TryAcquire(within(t, soon), "x")
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.NoError(t, lock.Release(t.Context()))
	for _, user := range []string{"", "bob:secret@", "alice:secretly@"} {
		_, err = open(user, "/alice")
		peer.SaysOneLine(t, err, lockport.ErrRefused, "the ACL does not let this user")
	}
	// The user may not create the chroot.
	_, err = raw.Create(top+"/locked", nil, 0, zk.WorldACL(zk.PermRead))
	require.NoError(t, err)
	_, err = open("", "/locked/a/b")
	peer.SaysOneLine(t, err, lockport.ErrRefused, "does not let this user create "+top+"/locked/a")
	// Nodes that the user may create but not delete would stay for ever: Check reports it.
	_, err = raw.Create(top+"/keep", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = raw.Create(top+"/keep/"+checkName, nil, 0, zk.WorldACL(zk.PermRead|zk.PermCreate))
	require.NoError(t, err)
	_, err = open("", "/keep")
	peer.SaysOneLine(t, err, lockport.ErrRefused, "delete "+top+"/keep/")
	// The user may not list nodes.
	_, err = raw.Create(top+"/blind", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = raw.Create(top+"/blind/x", nil, 0, zk.WorldACL(zk.PermCreate|zk.PermDelete))
	require.NoError(t, err)
	blind, err := open("", "/blind")
	require.NoError(t, err)
	_, err = blind.TryAcquire(within(t, soon), "x")
	peer.SaysOneLine(t, err, lockport.ErrRefused, "list")
	require.NoError(t, blind.Close())
	_, stat, err := raw.Exists(top + "/blind/x")
	require.NoError(t, err)
	require.Zero(t, stat.NumChildren, "the refused claim left its node")
}
