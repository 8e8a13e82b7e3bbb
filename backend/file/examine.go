package file

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lockport/lockport/driver"
)

var _ driver.Examiner = (*Backend)(nil)

// Examine implements driver.Examiner. The TTL has no effect here.
func (b *Backend) Examine(ctx context.Context, _ time.Duration) (driver.Examination, error) {
	if err := b.begun(ctx); err != nil {
		return driver.Examination{}, err
	}
	return b.examine(os.DirFS("/"))
}

// examine looks at the folder, and in system, the root of the file system, for what may clean it up.
func (b *Backend) examine(system fs.FS) (found driver.Examination, err error) {
	dir := b.dir.path
	found.Server = "files in " + dir
	fi, err := os.Stat(dir)
	if err != nil {
		return found, b.dir.explain(err)
	}
	if owner := ownerOf(fi); owner != os.Geteuid() && owner != 0 {
		found.Notices = append(found.Notices, driver.Notice{ID: "folder-owner",
			Text:   fmt.Sprintf("The lock folder belongs to user %d, who can rename it or remove files in it: that ends the locks that they stand for.", owner),
			Remedy: fmt.Sprintf("chown %d %s", os.Geteuid(), dir)})
	}
	if above := replaceable(dir); above != "" {
		found.Notices = append(found.Notices, driver.Notice{ID: "folder-path",
			Text:   fmt.Sprintf("Other users may rename folders in %s, the lock folder or one above it among them: there would be two sets of locks.", above),
			Remedy: "chmod +t " + above + ", or choose another folder."})
	}
	bytes, files, err := room(dir)
	if err != nil {
		return found, b.dir.explain(err)
	}
	found.Notices = append(found.Notices, judgeRoom(dir, bytes, files)...)
	if by, age := cleaner(system, dir); by != "" {
		found.Notices = append(found.Notices, driver.Notice{ID: "tmp-cleaner",
			Text: fmt.Sprintf("%s removes what nobody has written to for %s, and may do so here. Holders write once an hour; one that was stopped for so long, "+
				"with its machine say, can lose its lock. Once a file is gone, the order of fencing tokens rests on the clock.", by, age),
			Remedy: fmt.Sprintf("echo 'x %s' > /etc/tmpfiles.d/lockport.conf (of tmpreaper, TMPREAPER_PROTECT_EXTRA), or choose another folder.", dir)})
	}
	return found, nil
}

// replaceable is the first folder above dir in which others may rename what is not theirs, empty if there is none.
func replaceable(dir string) string {
	for above := filepath.Dir(dir); ; above = filepath.Dir(above) {
		fi, err := os.Stat(above)
		if err == nil && fi.Mode().Perm()&0o022 != 0 && fi.Mode()&fs.ModeSticky == 0 {
			return above
		}
		if above == filepath.Dir(above) {
			return ""
		}
	}
}

// A lock file takes a block, of 4 KB as a rule, and a name.
const (
	fewBytes = 1 << 20
	fewFiles = 256
)

// judgeRoom says whether there is room for the files of further names.
func judgeRoom(dir string, bytes, files uint64) []driver.Notice {
	if bytes >= fewBytes && files >= fewFiles {
		return nil
	}
	return []driver.Notice{{ID: "space",
		Text:   fmt.Sprintf("The file system of %s has room for %d KB and %d files more: a name that is used for the first time needs a file, and without one cannot be locked.", dir, bytes>>10, files),
		Remedy: "Make room, or choose a folder on another file system."}}
}
