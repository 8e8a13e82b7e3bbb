package servers

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/worker"
)

// starters are processes that start a server. Their only answer is its address.
var starters = worker.Kind[struct{}, struct{}, string]{Variable: "LOCKPORT_SERVERS_TEST_CHILD"}

func TestMain(m *testing.M) {
	starters.Main(func(ctx context.Context, _ struct{}) (func(struct{}) (string, error), func(), error) {
		r, err := StartRedis(ctx, RedisOptions{})
		return func(struct{}) (string, error) { return r.Addr(), nil }, func() {}, err
	})
	os.Exit(m.Run())
}

func TestServersDieWithTheProcess(t *testing.T) {
	SharedRedis(t) // it is installed
	child := peer.Must(starters.Start(t.Context(), struct{}{}))(t)
	defer child.Kill()
	addr := peer.Must(child.Ask(t.Context(), struct{}{}))(t)
	server := &Server{kind: kind{url: url.URL{Host: addr}}}
	require.NoError(t, accepts(t.Context(), server))
	require.Error(t, peer.ErrOf(net.ListenPacket("udp", addr)), "another process could take the port")
	child.Kill()
	require.Eventually(t, func() bool { return accepts(t.Context(), server) != nil }, pollTime, 10*time.Millisecond, "the server lives")
}

// Servers and their child processes do not run as root.
func TestNoServerRunsAsRoot(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("needs Linux")
	}
	for kind, s := range map[string]*Server{
		"redis": SharedRedis(t).Server, "etcd": SharedEtcd(t).Server, "zookeeper": SharedZooKeeper(t).Server,
		"postgres": SharedPostgres(t).Server, "mariadb": SharedMariaDB(t).Server,
	} {
		pids := []int{s.proc.Pid()}
		for _, c := range childrenOf(pids[0]) {
			pids = append(pids, c.Pid)
		}
		for _, pid := range pids {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if os.IsNotExist(err) && pid != pids[0] {
				continue // a child that has ended
			}
			require.NoError(t, err)
			_, ids, _ := strings.Cut(string(status), "\nUid:")
			require.NotContains(t, strings.Fields(ids)[:4], "0", kind)
		}
	}
}

// TestFrozenMeansSilent would catch an answer between the signal and the stop.
func TestFrozenMeansSilent(t *testing.T) {
	r := NeedRedis(t, RedisOptions{})
	for range 50 {
		require.NoError(t, r.Freeze())
		require.False(t, worker.Running(r.proc.Pid()))
		require.NoError(t, r.Thaw())
	}
}

func TestPgBouncerIsRevivedUnlessItWasToldToEnd(t *testing.T) {
	b := NeedPgBouncer(t, PgBouncerOptions{Server: SharedPostgres(t)})
	b.proc.Kill() // not b.Kill: nobody told it
	require.Equal(t, []any{nil, 1}, []any{b.Serves(t.Context()), b.Revivals()})
	require.NoError(t, b.Kill())
	require.Never(t, func() bool { return accepts(t.Context(), b) == nil }, 300*time.Millisecond, 10*time.Millisecond)
}
