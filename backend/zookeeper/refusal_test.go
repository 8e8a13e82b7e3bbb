package zookeeper

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/servers"
)

// oneLine checks that an error is one line that says all of these, and no password.
func oneLine(t *testing.T, err error, class error, says ...string) {
	t.Helper()
	require.ErrorIs(t, err, class)
	t.Log(err)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "secret")
	for _, s := range says {
		require.ErrorContains(t, err, s)
	}
}

func TestUnreachable(t *testing.T) {
	gone := servers.Nobody(t)
	start := time.Now()
	_, err := lockport.Open(within(t, soon), "zookeeper://user:secret@"+gone+","+gone)
	oneLine(t, err, lockport.ErrUnavailable, "no server of 2 can be reached", gone)
	require.Less(t, time.Since(start), soon/2)
	_, err = lockport.Open(within(t, soon), "zookeeper://nowhere.invalid")
	oneLine(t, err, lockport.ErrUnavailable, "nowhere.invalid")
}

func TestTTLBelowTheServersMinimum(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{TickTime: 500 * time.Millisecond})
	_, err := lockport.Open(within(t, soon), s.URL()+"?ttl=300ms")
	oneLine(t, err, lockport.ErrRefused, "smallest session timeout is 1s", "TTL 300ms")
	c, err := lockport.Open(within(t, soon), s.URL()+"?ttl=1s")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// A server that grants a shorter session is believed, not what was asked for.
func TestTTLAboveTheServersMaximum(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"maxSessionTimeout=1500"}})
	b := newBackend(t, Options{TTL: 2 * time.Second}, s.Addr())
	lease := takes(t, b, request(b, t.Name()))
	require.LessOrEqual(t, time.Until(lease.Grant().Until), 1500*time.Millisecond)
	c, _ := newClient(t, Options{TTL: 2 * time.Second}, s.Addr())
	lock, err := c.Acquire(within(t, soon), t.Name()+"2")
	require.NoError(t, err)
	time.Sleep(4 * time.Second)
	require.NoError(t, lock.Err(), "it is renewed often enough for the session that was granted")
	_, err = lockport.Open(within(t, soon), s.URL()+"?ttl=1m")
	oneLine(t, err, lockport.ErrRefused, "largest session timeout is 1.5s", "TTL 1m0s")
}

// A smallest session timeout below two ticks misleads us; a server that shows its configuration gives that away.
func TestTickNotice(t *testing.T) {
	for lines, notices := range map[string]int{"": 0, "minSessionTimeout=50": 1} {
		s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: strings.Fields(lines)})
		b := newBackend(t, Options{}, s.Addr())
		found, err := b.Check(within(t, soon))
		require.NoError(t, err)
		require.Len(t, found, notices)
		if notices > 0 {
			require.Equal(t, []string{"tick-time"}, idsOf(t, found))
			require.Contains(t, found[0].Remedy, "tick_time=100ms")
			require.False(t, found[0].Unknown)
		}
		set := newBackend(t, Options{TickTime: 100 * time.Millisecond}, s.Addr())
		found, err = set.Check(within(t, soon))
		require.NoError(t, err)
		require.Empty(t, found)
	}
}

func TestACL(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	raw := newRaw(t, s.Addr())
	open := func(user, path string) (*lockport.Client, error) {
		c, err := lockport.Open(within(t, soon), "zookeeper://"+user+s.Addr()+path+"?ttl=2s")
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return c, err
	}
	// What a user creates is that user's.
	mine, err := open("alice:secret@", "/alice")
	require.NoError(t, err)
	lock, err := mine.Acquire(within(t, soon), "x")
	require.NoError(t, err)
	var node Node
	require.True(t, lock.As(&node))
	for _, path := range []string{"/alice", "/alice/x", node.Path} {
		acl, _, err := raw.GetACL(path)
		if err == nil {
			require.Equal(t, "digest", acl[0].Scheme)
			require.True(t, strings.HasPrefix(acl[0].ID, "alice:"))
		} else {
			require.ErrorIs(t, err, zk.ErrNoAuth) // the server shows the ACL to those only who may read
		}
	}
	same, err := open("alice:secret@", "/alice")
	require.NoError(t, err)
	_, err = same.TryAcquire(within(t, soon), "x")
	require.ErrorIs(t, err, lockport.ErrHeld)
	for _, user := range []string{"", "bob:secret@", "alice:secretly@"} {
		_, err = open(user, "/alice")
		oneLine(t, err, lockport.ErrRefused, "the ACL does not let this user", "/alice")
	}
	// A chroot that may not be created.
	_, err = raw.Create("/locked", nil, 0, zk.WorldACL(zk.PermRead))
	require.NoError(t, err)
	_, err = open("", "/locked/a/b")
	oneLine(t, err, lockport.ErrRefused, "does not let this user create /locked/a")
	// Nodes that could be created but not deleted would never go away: Check finds out.
	_, err = raw.Create("/keep", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = raw.Create("/keep/"+checkName, nil, 0, zk.WorldACL(zk.PermRead|zk.PermCreate))
	require.NoError(t, err)
	_, err = open("", "/keep")
	oneLine(t, err, lockport.ErrRefused, "delete /keep/")
	// Nor listed.
	_, err = raw.Create("/blind", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = raw.Create("/blind/x", nil, 0, zk.WorldACL(zk.PermCreate|zk.PermDelete))
	require.NoError(t, err)
	blind, err := open("", "/blind")
	require.NoError(t, err)
	_, err = blind.TryAcquire(within(t, soon), "x")
	oneLine(t, err, lockport.ErrRefused, "list")
	require.NoError(t, blind.Close())
	_, stat, err := raw.Exists("/blind/x")
	require.NoError(t, err)
	require.Zero(t, stat.NumChildren, "the node of the claim that was refused is left")
}
