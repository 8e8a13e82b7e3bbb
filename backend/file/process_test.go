//go:build linux || darwin || freebsd

package file_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/driver"
)

// Other processes are this test binary, told by these variables what to do.
const (
	childMode = "LOCKPORT_TEST_FILE_CHILD"
	childDir  = "LOCKPORT_TEST_FILE_DIR"
)

// child is the main function of such a process. It says a line when it is ready, and ends at the end of its standard input.
func child(mode, dir string) {
	var err error
	switch mode {
	case "hold", "hold-with-child", "hold-and-share":
		err = holdInChild(mode, dir)
	case "idle":
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// holdInChild claims "x" and keeps it, with a child of its own if the mode says so.
func holdInChild(mode, dir string) error {
	b, err := file.NewBackend(file.Options{Dir: dir})
	if err != nil {
		return err
	}
	lease, err := b.TryAcquire(context.Background(), driver.Request{Name: "x", Owner: "child", TTL: time.Second})
	if err != nil {
		return err
	}
	if mode != "hold" {
		cmd := command("idle", dir)
		cmd.Stdin = os.Stdin // its life ends with the test, not with this process
		if mode == "hold-and-share" {
			var f *os.File
			lease.(driver.LeaseAs).As(&f)
			cmd.ExtraFiles = []*os.File{f}
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	select {}
}

func command(mode, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// start starts a process and waits until it is ready. Its standard input ends with the test, or when end is called.
func start(t *testing.T, mode, dir string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = command(mode, dir)
	in, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin = in
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	in.Close()
	end = sync.OnceFunc(func() { w.Close() })
	t.Cleanup(func() {
		end()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd, end
}

// The record of a dead holder is no lock.
func TestKilledHolder(t *testing.T) {
	dir := t.TempDir()
	b := backend(t, dir)
	cmd, _ := start(t, "hold", dir)
	st, err := b.Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: "x", Held: true, Owner: "child", Token: st.Token, Since: st.Since, Waiters: -1}, st)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	st, err = b.Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: "x", Waiters: -1}, st)
}

// A child of the holder's does not inherit the lock.
func TestChildDoesNotInherit(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := start(t, "hold-with-child", dir)
	require.NoError(t, cmd.Process.Kill())
	_, _ = cmd.Process.Wait() // not cmd.Wait: the child's child has its standard output
	release(t, claim(t, backend(t, dir), request("x")))
}

// A child that is given the file shares the lock for as long as it lives.
func TestChildShares(t *testing.T) {
	dir := t.TempDir()
	cmd, end := start(t, "hold-and-share", dir)
	require.NoError(t, cmd.Process.Kill())
	_, _ = cmd.Process.Wait()
	b, req := backend(t, dir), queued("x")
	requireHeld(t, b, req)
	end()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := wait(ctx, b, req)
	require.NoError(t, err)
}

// A release frees the lock although a child still has the file: one that is just being started always does.
func TestReleaseDespiteChild(t *testing.T) {
	dir := t.TempDir()
	b := backend(t, dir)
	lease := claim(t, b, request("x"))
	var f *os.File
	require.True(t, lease.(driver.LeaseAs).As(&f))
	require.False(t, lease.(driver.LeaseAs).As(new(string)))
	fi, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 0o600, fi.Mode().Perm())
	cmd := command("idle", dir)
	cmd.ExtraFiles = []*os.File{f}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	release(t, lease)
	release(t, claim(t, b, request("x")))
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

// A foreign program that uses flock(1) is waited for, and seen.
func TestForeignHolder(t *testing.T) {
	dir := t.TempDir()
	b := backend(t, dir)
	f, err := os.Create(filepath.Join(dir, file.FileName("x")))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	requireHeld(t, b, request("x"))
	st, err := b.Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, driver.Status{Name: "x", Held: true, Foreign: true, Waiters: -1}, st)
	require.NoError(t, f.Close())
	release(t, claim(t, b, request("x")))
}
