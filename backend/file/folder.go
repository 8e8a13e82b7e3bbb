package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lockport/lockport/driver"
)

// folder is where the lock files are. Path and own do not change; the backend's mutex guards the rest.
type folder struct {
	path   string
	own    bool      // it is DefaultDir: made where missing, and must be ours alone
	ready  bool      // it can be used
	pruned time.Time // when this process last looked for unused files
}

// DefaultDir is the folder of the present user's locks where none is given: /run/lock/lockport-UID where every user may make
// files in /run/lock, or the user is root, and /tmp/lockport-UID elsewhere. It follows from the user id alone, never from the
// environment, so that a job of cron and a login shell meet. It does not make the folder.
func DefaultDir() string {
	parent := "/tmp"
	if isForAll("/run/lock") {
		parent = "/run/lock"
	}
	return filepath.Join(parent, "lockport-"+strconv.Itoa(os.Geteuid()))
}

// prepare finds out whether the folder can be used. It makes the default folder.
func (d *folder) prepare() error {
	if d.ready {
		if _, err := os.Stat(d.path); !d.own || err == nil {
			return nil
		}
		d.ready = false // to be made again
	}
	if errUnsupported != nil {
		return errUnsupported
	}
	if err := d.check(); err != nil {
		return d.explain(err)
	}
	kind, _, err := remoteness(d.path)
	if err != nil {
		return fmt.Errorf("%w: cannot find out the file system of %s: %w", driver.ErrUnavailable, d.path, err)
	}
	if kind != "" {
		return fmt.Errorf("%w: the lock folder %s is on a shared file system (%s), where a lock can be lost without notice; "+
			"choose a folder on a local disk, or a lock server for several machines", driver.ErrRefused, d.path, kind)
	}
	d.ready = true
	return nil
}

// check looks at the folder itself.
func (d *folder) check() error {
	if !d.own {
		fi, err := os.Stat(d.path)
		if err == nil && !fi.IsDir() {
			err = &fs.PathError{Op: "use", Path: d.path, Err: syscall.ENOTDIR}
		}
		return err
	}
	parent := filepath.Dir(d.path)
	if fi, err := os.Stat(parent); err != nil {
		return err
	} else if isOpen(fi) {
		return fmt.Errorf("%w: anybody can rename folders in %s, so no lock folder in it is safe; give another one, or set its sticky bit "+
			"(chmod +t)", driver.ErrRefused, parent)
	}
	if err := os.Mkdir(d.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(d.path) // of a link itself: somebody else may have made it
	if err != nil {
		return err
	}
	if !fi.IsDir() || ownerOf(fi) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%w: %s is not a folder that belongs to user %d and that nobody else may write to; find out who made it, and "+
			"remove it", driver.ErrRefused, d.path, os.Geteuid())
	}
	return nil
}

// explain gives an error of the file system its class, and a remedy where there is one. The attempt has had no effect.
func (d *folder) explain(err error) error {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
	switch {
	case err == nil, is(driver.ErrHeld, driver.ErrRefused, driver.ErrUnavailable):
		return err
	case is(fs.ErrNotExist) && d.own:
		return fmt.Errorf("%w: the lock folder is gone: %w", driver.ErrUnavailable, err)
	case is(fs.ErrNotExist, syscall.ENOTDIR):
		return fmt.Errorf("%w: there is no lock folder %s (%w); make it with mkdir -m 700", driver.ErrRefused, d.path, err)
	case is(syscall.ELOOP):
		return fmt.Errorf("%w: a symbolic link stands in place of a lock file: %w; remove it", driver.ErrRefused, err)
	case is(syscall.EISDIR):
		return fmt.Errorf("%w: a folder stands in place of a lock file: %w; remove it", driver.ErrRefused, err)
	case is(fs.ErrPermission, syscall.EROFS):
		return fmt.Errorf("%w: %w; user %d must be allowed to write in the lock folder, and own the files in it",
			driver.ErrRefused, err, os.Geteuid())
	case is(syscall.ENOSYS, syscall.ENOTSUP, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: the file system has no flock(2): %w; choose a folder on a local disk", driver.ErrRefused, err)
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return fmt.Errorf("%w: %w; make room for the lock files, of 2 KB each", driver.ErrUnavailable, err)
	case is(syscall.EMFILE, syscall.ENFILE):
		return fmt.Errorf("%w: %w; raise the limit (ulimit -n): each lock that is held or waited for needs one, a reader's two", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
