package file

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// queued returns a claim of name by a new owner.
func queued(name string) driver.Request { return new(peer.Peer).Request(name) }

func request(name string) driver.Request         { return peer.Once(queued(name)) }
func reading(name string) driver.Request         { return peer.Reading(request(name)) }
func permitOf(name string, n int) driver.Request { return peer.Permit(request(name), n) }

// nobodyOvertakes stops waiters from overtaking the next one, until the test ends.
func nobodyOvertakes(t *testing.T) {
	before := overtakeAfter
	t.Cleanup(func() { overtakeAfter = before })
	overtakeAfter = time.Hour
}

func backend(t testing.TB, dir string) *Backend {
	t.Helper()
	b := peer.Must(NewBackend(Options{Dir: dir}))(t)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func release(t testing.TB, lease driver.Lease) { (&peer.Peer{T: t}).Frees(lease) }

// namesIn returns the names of the files in dir, sorted.
func namesIn(t *testing.T, dir string) []string { return peer.Must(fs.Glob(os.DirFS(dir), "*"))(t) }

// A waiter whose file is replaced waits for the new one, whether the old one is locked or free.
func TestWaiterFollowsReplacement(t *testing.T) {
	for _, free := range []bool{false, true} {
		dir := t.TempDir()
		a, b, c := backend(t, dir), backend(t, dir), backend(t, dir)
		old := peer.Takes(t, a, request("x"))
		req := queued("x")
		peer.Fails(t, b, req, driver.ErrHeld)
		require.NoError(t, os.Remove(filepath.Join(dir, FileName("x"))))
		lease := peer.Takes(t, c, request("x"))
		if free {
			require.ErrorIs(t, old.Release(t.Context()), driver.ErrLost)
		}
		peer.Fails(t, b, req, driver.ErrHeld)
		release(t, lease)
		release(t, peer.Takes(t, b, req))
	}
}

func TestURL(t *testing.T) {
	dir := t.TempDir() + "/with space"
	peer.SaysOneLine(t, peer.ErrOf(lockport.Open(t.Context(), (&url.URL{Scheme: "file", Path: dir}).String())), driver.ErrRefused, dir)

	for good, want := range map[string]string{
		"file:":                  DefaultDir(),
		"file://":                DefaultDir(),
		"file:///a%20b/c?ttl=3s": "/a b/c",
		"file:/a/../b":           "/b",
	} {
		require.Equal(t, want, peer.Opened(t, good).(*Backend).dir.path, good)
	}
	for _, bad := range []string{"file:relative", "file://host/dir", "file:///dir?prefix=x", "file:///dir#x", "file://user@/dir"} {
		require.Error(t, peer.ErrOf(peer.Open(t.Context(), bad)), bad)
	}
}
