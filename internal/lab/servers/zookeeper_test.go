package servers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// zkClient is a client of the servers at addrs, in a session that lives for 5 s without them.
func zkClient(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(addrs, 5*time.Second, zk.WithLogger(silence{}), zk.WithDialer(DialZooKeeper))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

type silence struct{}

func (silence) Printf(string, ...any) {}

func create(t *testing.T, conn *zk.Conn, path string, flags int32) {
	t.Helper()
	_, err := conn.Create(path, []byte("v"), flags, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

// exists is whether the servers know a node, as soon as the client, which lost them for a moment, has them again.
func exists(t *testing.T, conn *zk.Conn, path string) bool {
	t.Helper()
	var found bool
	require.NoError(t, poll(soon(t), func() (err error) { found, _, err = conn.Exists(path); return err }))
	return found
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	t.Cleanup(cancel)
	return ctx
}

func word(t *testing.T, z *ZooKeeper, word string) string {
	t.Helper()
	answer, err := z.FourLetter(t.Context(), word)
	require.NoError(t, err)
	return answer
}

func TestZooKeeper(t *testing.T) {
	z := NeedZooKeeper(t, ZooKeeperOptions{})
	require.Equal(t, "zookeeper://"+z.Addr(), z.URL())
	mode, err := z.Mode(t.Context())
	require.NoError(t, err)
	require.Equal(t, "standalone", mode)
	conf := word(t, z, "conf")
	for _, line := range []string{"tickTime=100\n", "minSessionTimeout=200\n", "maxSessionTimeout=60000\n", "maxClientCnxns=0\n"} {
		require.Contains(t, conf, line)
	}
	require.Equal(t, "imok", word(t, z, "ruok"))
	_, err = z.FourLetter(t.Context(), "ru")
	require.ErrorContains(t, err, "four letters")
	require.Contains(t, z.Log(), "INFO")

	require.NoError(t, z.Freeze())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = z.FourLetter(ctx, "ruok")
	require.ErrorIs(t, err, context.Canceled)
	_, err = z.FourLetter(t.Context(), "ruok")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, z.Thaw())
	require.Equal(t, "imok", word(t, z, "ruok"))
}

func TestZooKeeperOptions(t *testing.T) {
	t.Parallel()
	z := NeedZooKeeper(t, ZooKeeperOptions{
		TickTime: 50 * time.Millisecond,
		Config:   []string{"maxClientCnxns=7", "digest.enabled=false"},
		JVM:      []string{"-Dznode.container.checkIntervalMs=20"},
	})
	conf := word(t, z, "conf")
	require.Contains(t, conf, "tickTime=50\n")
	require.Contains(t, conf, "maxClientCnxns=7\n")

	conn := zkClient(t, z.Addr())
	_, err := conn.CreateContainer("/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	create(t, conn, "/container/child", 0)
	require.NoError(t, conn.Delete("/container/child", -1))
	_, err = conn.CreateTTL("/brief", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Millisecond)
	require.NoError(t, err)
	for _, path := range []string{"/container", "/brief"} {
		require.NoError(t, poll(soon(t), func() error {
			if exists(t, conn, path) {
				return errors.New(path + " is still there")
			}
			return nil
		}))
	}
}

func TestZooKeeperOnAPortThatIsTaken(t *testing.T) {
	first := NeedZooKeeper(t, ZooKeeperOptions{})
	require.ErrorContains(t, zooKeeperReady(t.Context(), first.Addr(), t.TempDir()), "not ours")
	require.NoError(t, zooKeeperReady(t.Context(), first.Addr(), first.Dir()))
	_, err := StartZooKeeper(t.Context(), ZooKeeperOptions{Config: []string{fmt.Sprint("clientPort=", first.port)}})
	require.ErrorContains(t, err, "ended at its start")
	require.ErrorContains(t, err, "Address already in use")
}
