//go:build linux || darwin || freebsd

package file

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) { peer.Main(m, 0) }

// child starts cat, which gets files. It lives until done is called.
func child(t *testing.T, files ...*os.File) (done func()) {
	cat := exec.Command("cat")
	cat.ExtraFiles = files
	in := peer.Must(cat.StdinPipe())(t)
	require.NoError(t, cat.Start())
	return func() { require.NoError(t, errors.Join(in.Close(), cat.Wait())) }
}

// When a process is killed, the kernel closes its files, as this test does. A child has not inherited the lock. One that got the file shares
// the lock while it lives.
func TestChildrenOfAKilledHolder(t *testing.T) {
	dir := t.TempDir()
	var f *os.File
	require.True(t, peer.Takes(t, backend(t, dir), request("x")).(driver.LeaseAs).As(&f))
	plain, sharing := child(t), child(t, f)
	require.NoError(t, f.Close())
	b, req := backend(t, dir), queued("x")
	peer.Fails(t, b, req, driver.ErrHeld)
	sharing()
	peer.Takes(t, b, req)
	plain()
}

// A release frees the lock although a child still has the file, as every child has while it starts.
func TestReleaseDespiteChild(t *testing.T) {
	b := backend(t, t.TempDir())
	lease := peer.Takes(t, b, request("x"))
	var f *os.File
	require.True(t, lease.(driver.LeaseAs).As(&f))
	require.False(t, lease.(driver.LeaseAs).As(new(string)))
	require.EqualValues(t, 0o600, peer.Must(f.Stat())(t).Mode().Perm())
	done := child(t, f)
	release(t, lease)
	release(t, peer.Takes(t, b, request("x")))
	done()
}
