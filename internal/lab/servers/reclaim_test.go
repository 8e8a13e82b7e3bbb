package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childVariable makes this test binary a program that starts a server, prints its address and waits to be killed.
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
	NeedRedis(t, RedisOptions{}) // it is installed
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+TempDir(t))
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	if err == nil {
		var conn net.Conn
		if conn, err = net.Dial("tcp", strings.TrimSpace(line)); err == nil {
			err = conn.Close()
		}
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.NoError(t, err, "%s", line)

	require.NoError(t, poll(timeout(t), func() error {
		conn, err := net.Dial("tcp", strings.TrimSpace(line))
		if err != nil {
			return nil
		}
		_ = conn.Close()
		return fmt.Errorf("the server on %s outlived its process", line)
	}))
}

// TestServersOutliveThreads starts a server from a thread that ends.
func TestServersOutliveThreads(t *testing.T) {
	NeedRedis(t, RedisOptions{})
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
	case <-r.proc.done:
		require.Fail(t, "the server ended with the thread that started it")
	case <-time.After(100 * time.Millisecond):
	}
	do(t, r, "PING")
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}
