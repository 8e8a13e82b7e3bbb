package servers

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	_ = flag.Set("test.parallel", "6") // the tests mostly wait
	os.Exit(m.Run())
}

func TestServersDieWithTheProcess(t *testing.T) {
	SharedRedis(t) // it is installed
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+TempDir(t))
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	addr := strings.TrimSpace(line)
	if err == nil {
		var conn net.Conn
		if conn, err = net.Dial("tcp", addr); err == nil {
			err = conn.Close()
		}
	}
	claim, taken := net.ListenPacket("udp", addr)
	if taken == nil {
		_ = claim.Close()
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NoError(t, err, "%s", line)
	require.Error(t, taken, "another process could take the port")
	soon(t, func(context.Context) error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		return errors.Join(conn.Close(), errors.New("the server lives"))
	})
}

// TestServersOutliveThreads starts a server from a thread that then ends.
func TestServersOutliveThreads(t *testing.T) {
	SharedRedis(t)
	var r *Redis
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		r, err = StartRedis(context.Background(), RedisOptions{})
	}()
	<-done
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	select {
	case <-r.proc.Over():
		require.Fail(t, "the server ended with the thread that started it")
	case <-time.After(100 * time.Millisecond):
	}
}

// A server does not start if its port is taken, and the other server on that port is not mistaken for it.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	other := SharedRedis(t)
	_, err := StartRedis(t.Context(), RedisOptions{Config: []string{fmt.Sprint("port ", other.port)}})
	require.ErrorContains(t, err, "exited during startup")
	require.ErrorContains(t, err, "Address already in use")

	r := NeedRedis(t, RedisOptions{})
	require.NoError(t, r.Stop())
	thief, err := net.Listen("tcp", r.Addr())
	require.NoError(t, err)
	require.ErrorContains(t, r.Restart(t.Context()), "Address already in use")
	require.NoError(t, thief.Close())
	require.NoError(t, r.Restart(t.Context()))
}

// A failed start leaves nothing behind, and its error shows the log. Close leaves nothing behind either.
func TestServersLeaveNothing(t *testing.T) {
	SharedRedis(t)
	primary := SharedPostgres(t)
	NeedEtcd(t, EtcdOptions{Current: true}) // it is built
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("changed my mind"))
	ctx := t.Context()
	redis, etcd := RedisOptions{Config: []string{"no-such-setting 1"}}, EtcdOptions{Flags: []string{"--no-such-setting"}}
	java := ZooKeeperOptions{Config: []string{"tickTime=no-such-setting"}}
	bad := map[string]string{"no-such-setting": "1"}
	long := EtcdOptions{Current: true, RootPassword: strings.Repeat("secret", 20)} // bcrypt takes 72 bytes
	TempDir(t)
	var starts sync.WaitGroup
	for _, c := range []struct {
		wants string
		start func() (io.Closer, error)
	}{
		{"changed my mind", func() (io.Closer, error) { return StartRedis(cancelled, RedisOptions{}) }},
		{"changed my mind", func() (io.Closer, error) { return StartEtcdCluster(cancelled, EtcdOptions{}) }},
		{"changed my mind", func() (io.Closer, error) { return StartPostgres(cancelled, PostgresOptions{Primary: primary}) }},
		{"no-such-setting", func() (io.Closer, error) { return StartRedis(ctx, redis) }},
		{"no-such-setting", func() (io.Closer, error) { return StartCluster(ctx, redis) }},
		{"negative", func() (io.Closer, error) { return StartSentinel(ctx, SentinelOptions{DownAfter: -time.Second}) }},
		{"no-such-setting", func() (io.Closer, error) { return StartEtcdCluster(ctx, etcd) }},
		{"72 bytes", func() (io.Closer, error) { return StartEtcd(ctx, long) }},
		{"no-such-setting", func() (io.Closer, error) { return StartEnsemble(ctx, java) }},
		{"no-such-setting", func() (io.Closer, error) { return StartPostgres(ctx, PostgresOptions{Settings: bad}) }},
		{"no-such-setting", func() (io.Closer, error) { return StartMariaDB(ctx, MariaDBOptions{Settings: bad}) }},
		{"", func() (io.Closer, error) { return StartSentinel(ctx, SentinelOptions{}) }},
		{"", func() (io.Closer, error) { return StartEtcdCluster(ctx, EtcdOptions{Cuttable: true}) }},
	} {
		starts.Go(func() {
			closer, err := c.start()
			var missing *NotInstalled
			switch {
			case errors.As(err, &missing) && !required(missing.Program):
			case c.wants == "":
				assert.NoError(t, err)
				assert.NoError(t, closer.Close())
			default:
				assert.ErrorContains(t, err, c.wants)
				assert.NotContains(t, err.Error(), "secret")
			}
		})
	}
	starts.Wait()
	wantEmpty(t, os.TempDir())
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// If root's servers cannot enter a folder, the error says what to do.
func TestClosedTemporaryFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	SharedRedis(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	t.Setenv("TMPDIR", dir)
	_, err := StartRedis(t.Context(), RedisOptions{})
	require.ErrorContains(t, err, "set TMPDIR to another folder")
	wantEmpty(t, dir)
}
