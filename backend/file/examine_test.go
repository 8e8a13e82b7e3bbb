//go:build linux || darwin || freebsd

package file

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// found are the IDs of what examine finds in the folder of b, on a system that has nothing which cleans up.
func found(t *testing.T, b *Backend) (ids []string) {
	t.Helper()
	e, err := b.examine(fstest.MapFS{})
	require.NoError(t, err)
	require.Equal(t, "files in "+b.Dir(), e.Server)
	for _, n := range e.Notices {
		require.NotEmpty(t, n.Text)
		require.NotEmpty(t, n.Remedy)
		ids = append(ids, n.ID)
	}
	return ids
}

func TestExamine(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "locks")
	require.NoError(t, os.Mkdir(dir, 0o700))
	b := newBackend(t, dir)
	require.Empty(t, found(t, b))
	require.NoError(t, os.Chmod(outer, 0o777))
	require.Equal(t, []string{"folder-path"}, found(t, b))
	require.NoError(t, os.Chmod(outer, 0o777|os.ModeSticky))
	require.Empty(t, found(t, b))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 12345, -1))
		require.Equal(t, []string{"folder-owner"}, found(t, b))
	}
	e, err := b.examine(fstest.MapFS{"usr/lib/tmpfiles.d/all.conf": {Data: []byte("q " + outer + " 1777 root root 10d\n")}})
	require.NoError(t, err)
	last := e.Notices[len(e.Notices)-1]
	require.Equal(t, "tmp-cleaner", last.ID)
	require.Contains(t, last.Text, "systemd-tmpfiles removes what nobody has written to for 10d")

	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files, "Examine leaves nothing")
	require.NoError(t, os.Remove(dir))
	_, err = b.Examine(t.Context(), 0)
	require.ErrorIs(t, err, driver.ErrRefused)
}

func TestJudgeRoom(t *testing.T) {
	require.Empty(t, judgeRoom("/x", fewBytes, fewFiles))
	for _, v := range [][2]uint64{{fewBytes - 1, math.MaxUint64}, {1 << 40, fewFiles - 1}} {
		require.Len(t, judgeRoom("/x", v[0], v[1]), 1)
		require.Equal(t, "space", judgeRoom("/x", v[0], v[1])[0].ID)
	}
}

func TestCleaner(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const fedora = "# comment\nq /tmp 1777 root root 10d\nq /var/tmp 1777 root root 30d\n"
	for _, v := range []struct {
		name, dir, by, age string
		system             fstest.MapFS
	}{
		{"nothing", "/tmp/locks", "", "", nil},
		{"systemd", "/tmp/locks", "systemd-tmpfiles", "10d", fstest.MapFS{"usr/lib/tmpfiles.d/tmp.conf": file(fedora)}},
		{"the other folder", "/var/tmp/a/b", "systemd-tmpfiles", "30d", fstest.MapFS{"usr/lib/tmpfiles.d/tmp.conf": file(fedora)}},
		{"elsewhere", "/run/lock/x", "", "", fstest.MapFS{"usr/lib/tmpfiles.d/tmp.conf": file(fedora)}},
		{"a name that begins alike", "/tmpx/locks", "", "", fstest.MapFS{"usr/lib/tmpfiles.d/tmp.conf": file(fedora)}},
		{"without an age, as on Debian", "/tmp/locks", "", "", fstest.MapFS{"usr/lib/tmpfiles.d/tmp.conf": file("D /tmp 1777 root root -\n")}},
		{"overridden", "/tmp/locks", "", "", fstest.MapFS{
			"usr/lib/tmpfiles.d/tmp.conf": file(fedora), "etc/tmpfiles.d/tmp.conf": file("q /tmp 1777 root root -\n")}},
		{"excluded, as we say", "/tmp/locks", "", "", fstest.MapFS{
			"usr/lib/tmpfiles.d/tmp.conf": file(fedora), "etc/tmpfiles.d/lockport.conf": file("x /tmp/locks\n")}},
		{"excluded by a pattern", "/tmp/lockport-0", "", "", fstest.MapFS{
			"usr/lib/tmpfiles.d/tmp.conf": file(fedora), "etc/tmpfiles.d/lockport.conf": file("x /tmp/lockport-*\n")}},
		{"excluded is another", "/tmp/locks", "systemd-tmpfiles", "10d", fstest.MapFS{
			"usr/lib/tmpfiles.d/tmp.conf": file(fedora), "etc/tmpfiles.d/lockport.conf": file("x /tmp/other\n")}},
		{"tmpreaper", "/tmp/locks", "tmpreaper", "some days", fstest.MapFS{"etc/cron.daily/tmpreaper": file("")}},
		{"tmpreaper elsewhere", "/srv/locks", "", "", fstest.MapFS{"etc/cron.daily/tmpreaper": file("")}},
	} {
		by, age := cleaner(v.system, v.dir)
		require.Equal(t, []string{v.by, v.age}, []string{by, age}, v.name)
	}
}

func TestRoom(t *testing.T) {
	bytes, files, err := room(t.TempDir())
	require.NoError(t, err)
	require.NotZero(t, bytes)
	require.NotZero(t, files)
	_, _, err = room(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
