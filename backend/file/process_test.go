//go:build linux || darwin || freebsd

package file

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(peer.Open)
	if os.Getenv(childDir) != "" {
		fmt.Println(holdInChild())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Variables that make this test binary another process: the folder, and whether its child gets the file.
const (
	childDir    = "LOCKPORT_TEST_FILE_DIR"
	childShares = "LOCKPORT_TEST_FILE_SHARES"
)

// holdInChild is that process: it claims "x", starts a child that lives until its standard input ends, and keeps the lock.
func holdInChild() error {
	b, err := NewBackend(Options{Dir: os.Getenv(childDir)})
	if err != nil {
		return err
	}
	lease, err := b.TryAcquire(context.Background(), driver.Request{Name: "x", Owner: "child", TTL: time.Second})
	if err != nil {
		return err
	}
	cat := exec.Command("cat")
	cat.Stdin = os.Stdin
	if os.Getenv(childShares) == "true" {
		var f *os.File
		lease.(driver.LeaseAs).As(&f)
		cat.ExtraFiles = []*os.File{f}
	}
	if err := cat.Start(); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// A killed holder's child has not inherited the lock. One that got the file shares the lock while it lives.
func TestChildrenOfAKilledHolder(t *testing.T) {
	for _, shares := range []bool{false, true} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir, childShares+"="+fmt.Sprint(shares))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		defer in.Close()
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer cmd.Process.Kill()
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		b, req := backend(t, dir), queued("x")
		peer.Fails(t, b, req, driver.ErrHeld)
		require.NoError(t, cmd.Process.Kill())
		_, _ = cmd.Process.Wait()
		if shares {
			peer.Fails(t, b, req, driver.ErrHeld)
			require.NoError(t, in.Close())
		}
		(&peer.Peer{T: t, Of: b}).TakesSoon(req)
	}
}

// A release frees the lock although a child still has the file, as every child has while it starts.
func TestReleaseDespiteChild(t *testing.T) {
	b := backend(t, t.TempDir())
	lease := peer.Takes(t, b, request("x"))
	var f *os.File
	require.True(t, lease.(driver.LeaseAs).As(&f))
	require.False(t, lease.(driver.LeaseAs).As(new(string)))
	fi, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 0o600, fi.Mode().Perm())
	cat := exec.Command("cat")
	cat.ExtraFiles = []*os.File{f}
	in, err := cat.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cat.Start())
	release(t, lease)
	release(t, peer.Takes(t, b, request("x")))
	require.NoError(t, in.Close())
	require.NoError(t, cat.Wait())
}
