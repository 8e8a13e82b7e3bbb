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

// folder holds the lock files. path and own do not change; the backend's mutex guards pruned.
type folder struct {
	path   string
	own    bool      // it is DefaultDir: created if missing, and writable for nobody else
	pruned time.Time // when this process last pruned it
}

// DefaultDir is the folder of the current user's locks if none is given: /run/lock/lockport-UID if every user may create files in /run/lock, or the
// user is root; otherwise /tmp/lockport-UID. It depends on the user id alone, never on the environment, so that a cron job and a login shell share
// locks. DefaultDir does not create the folder.
func DefaultDir() string {
	parent := "/tmp"
	if allMayWrite("/run/lock") {
		parent = "/run/lock"
	}
	return filepath.Join(parent, "lockport-"+strconv.Itoa(os.Geteuid()))
}

// prepare checks that the folder can be used. It creates the default folder.
func (d *folder) prepare() error {
	if errUnsupported != nil {
		return errUnsupported
	}
	if d.own {
		if err := d.create(); err != nil {
			return d.explain(err)
		}
	}
	kind, _, err := remoteFS(d.path)
	if err != nil {
		return d.explain(&fs.PathError{Op: "statfs", Path: d.path, Err: err})
	}
	if kind != "" {
		return fmt.Errorf("%w: the lock folder %s is on a shared file system (%s), where a lock can be lost without notice; "+
			"choose a folder on a local disk, or a lock server for several machines", driver.ErrRefused, d.path, kind)
	}
	return nil
}

// create creates the default folder if it is missing, and checks that nobody else can change it.
func (d *folder) create() error {
	parent := filepath.Dir(d.path)
	if fi, err := os.Stat(parent); err != nil {
		return err
	} else if isOpen(fi) {
		return fmt.Errorf("%w: anybody can rename folders in %s, so no lock folder in it is safe; choose another one, or set its sticky bit "+
			"(chmod +t)", driver.ErrRefused, parent)
	}
	if err := os.Mkdir(d.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(d.path) // not following a link, which another user may have made
	if err != nil {
		return err
	}
	if !fi.IsDir() || ownerOf(fi) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%w: %s must be a folder of user %d that nobody else may write to; find out who made it, and "+
			"remove it", driver.ErrRefused, d.path, os.Geteuid())
	}
	return nil
}

// explain gives a file system error its class, and a remedy if there is one. The attempt has had no effect.
func (d *folder) explain(err error) error {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
	switch {
	case err == nil, is(driver.ErrHeld, driver.ErrRefused, driver.ErrUnavailable):
		return err
	case is(fs.ErrNotExist) && d.own:
		return fmt.Errorf("%w: the lock folder is gone: %w", driver.ErrUnavailable, err)
	case is(syscall.ENOTDIR):
		return fmt.Errorf("%w: %s is not a folder (%w); choose another one", driver.ErrRefused, d.path, err)
	case is(fs.ErrNotExist):
		return fmt.Errorf("%w: there is no lock folder %s (%w); make it with mkdir -m 700", driver.ErrRefused, d.path, err)
	case is(syscall.ELOOP, syscall.EISDIR):
		return fmt.Errorf("%w: a symbolic link or a folder is in place of a lock file: %w; remove it", driver.ErrRefused, err)
	case is(fs.ErrPermission, syscall.EROFS):
		return fmt.Errorf("%w: %w; user %d must be allowed to write in the lock folder, and own the files in it",
			driver.ErrRefused, err, os.Geteuid())
	case is(syscall.ENOSYS, syscall.ENOTSUP, syscall.EOPNOTSUPP):
		return fmt.Errorf("%w: the file system has no flock(2): %w; choose a folder on a local disk", driver.ErrRefused, err)
	case is(syscall.EMFILE, syscall.ENFILE):
		return fmt.Errorf("%w: %w; raise the limit (ulimit -n): each held or awaited lock needs one, a reader's two", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

const (
	// unused is how long a file must be unlocked before it is removed.
	unused = 7 * 24 * time.Hour
	// pruneEvery is how often a process that creates lock files looks for unused ones.
	pruneEvery = 24 * time.Hour
)

// prune removes unused files in the background, if it is time. Close waits for it. The caller holds mu.
func (b *Backend) prune(now time.Time) {
	if now.Sub(b.dir.pruned) < pruneEvery {
		return
	}
	b.dir.pruned = now
	b.pruning.Go(func() {
		files, _ := os.ReadDir(b.dir.path) // with an error, those that could be read
		for _, file := range files {
			if fi, err := file.Info(); err == nil && lockFileName.MatchString(file.Name()) && now.Sub(fi.ModTime()) > unused {
				_ = b.look(file.Name(), os.O_RDWR, func(f *lockFile) error { return b.remove(f, now) })
			}
		}
	})
}

// remove removes f while it has it locked. A claim that locks it afterwards finds that it is no longer at its path. The name's next token comes from
// the clock, so a file whose token is ahead of that stays. So does the gate of a held permit: its holder may have been stopped for days.
func (b *Backend) remove(f *lockFile, now time.Time) error {
	if err := f.tryLock(); err != nil {
		return err
	}
	if name, n := f.readLine(); n > 0 {
		if st, err := b.holders(permit, driver.Status{Name: name}, nil); err != nil || st.Held {
			return err
		}
	}
	fi, err := os.Lstat(f.Name())
	if err == nil && f.read() == nil && os.SameFile(fi, f.info) && now.Sub(fi.ModTime()) > unused && f.record.token < uint64(now.UnixMicro()) {
		err = os.Remove(f.Name())
	}
	return err
}
