package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/worker"
)

// childVariable makes this test binary start a server, print its address and wait to be killed.
const childVariable = "LOCKPORT_SERVERS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		r, err := StartRedis(context.Background(), RedisOptions{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(r.Addr())
		select {}
	}
	os.Exit(m.Run())
}

func TestServersDieWithTheProcess(t *testing.T) {
	SharedRedis(t) // it is installed
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	addr := strings.TrimSpace(line)
	server := &Server{kind: kind{url: url.URL{Host: addr}}}
	if err == nil {
		err = accepts(t.Context(), server)
	}
	claim, taken := net.ListenPacket("udp", addr)
	if taken == nil {
		_ = claim.Close()
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NoError(t, err, "%s", line)
	require.Error(t, taken, "another process could take the port")
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
