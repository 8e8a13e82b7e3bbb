package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector. It says who wrote to the file last, if the file is locked. Who locked it without writing is
// foreign, and seen on Linux only.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := b.begun(ctx); err != nil {
		return driver.Status{}, err
	}
	st, err := b.inspect(FileName(name))
	st.Name = name
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if err := b.begun(ctx); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(b.dir.path)
	if err != nil {
		return nil, b.dir.explain(err)
	}
	var all []driver.Status
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		if !strings.HasSuffix(file.Name(), suffix) {
			continue
		}
		st, err := b.inspect(file.Name())
		if err != nil {
			return nil, err
		}
		if st.Held && st.Name != "" && strings.HasPrefix(st.Name, prefix) {
			all = append(all, st)
		}
	}
	return all, nil
}

// begun says whether the folder can be looked at.
func (b *Backend) begun(ctx context.Context) error {
	b.mu.Lock()
	err := b.usable(ctx)
	b.mu.Unlock()
	if err == nil {
		err = b.dir.prepare()
	}
	return err
}

// inspect reads one lock file.
func (b *Backend) inspect(file string) (driver.Status, error) {
	st := driver.Status{Waiters: -1}
	f, err := openToLook(filepath.Join(b.dir.path, file))
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return st, b.dir.explain(err)
	}
	defer f.Close()
	st.Name, _ = readName(f, file)
	r, _, err := readRecord(f)
	if err != nil {
		return st, b.dir.explain(err)
	}
	fi, err := f.Stat()
	if err != nil {
		return st, b.dir.explain(err)
	}
	pid := holderOf(fi)
	switch {
	case pid != 0:
		st.Held = true
	case r.held:
		// A holder that died leaves such a record. Only this is put to the test, since the test gets in the way of others.
		if st.Held, err = isFlocked(f); err != nil {
			return st, b.dir.explain(err)
		}
	}
	switch {
	case st.Held && r.held && !isOfAnother(r.owner, pid):
		st.Owner, st.Token, st.Since = r.owner, r.token, r.since
	case st.Held:
		st.Owner, st.Foreign = fmt.Sprintf("process %d", pid), true // flock(1), say
	}
	return st, nil
}

// holderIn is the holder of f, which somebody else has locked, as far as f tells. A record of a process that has died tells nothing: the file has been
// locked since by a program that does not write to it.
func holderIn(f *os.File) driver.Status {
	r, _, err := readRecord(f)
	c, ok := driver.OwnerClaimant(r.owner)
	if err != nil || !r.held || !ok {
		return driver.Status{}
	}
	if host, err := os.Hostname(); err == nil && host == c.Host {
		p, err := os.FindProcess(c.PID)
		if err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			return driver.Status{}
		}
		_ = p.Release()
	}
	return driver.Status{Owner: r.owner, Token: r.token, Since: r.since}
}

// isOfAnother says that a record was left behind by a holder that died, since another process of the same machine has locked the file. pid is 0 if
// that is not known.
func isOfAnother(owner string, pid int) bool {
	c, ok := driver.OwnerClaimant(owner)
	host, err := os.Hostname()
	return pid != 0 && ok && c.PID != pid && err == nil && c.Host == host
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	if err := b.begun(ctx); err != nil {
		return nil, err
	}
	fi, err := os.Stat(b.dir.path)
	if err != nil {
		return nil, b.dir.explain(err)
	}
	if err := probe(b.dir.path); err != nil {
		return nil, b.dir.explain(err)
	}
	var notices []driver.Notice
	if _, unsure, _ := remoteness(b.dir.path); unsure {
		notices = append(notices, driver.Notice{
			ID: "file-system", Unknown: true,
			Text:   "The lock folder is on a file system in user space (FUSE), which may be shared with other machines.",
			Remedy: "Choose a folder on a local disk.",
		})
	}
	if fi.Mode().Perm()&0o022 != 0 && fi.Mode()&fs.ModeSticky == 0 {
		notices = append(notices, driver.Notice{
			ID:     "folder-mode",
			Text:   "Other users may remove files in the lock folder, which ends the locks that they stand for.",
			Remedy: "chmod go-w " + b.dir.path,
		})
	}
	if owner := ownerOf(fi); owner != os.Geteuid() && owner != 0 {
		notices = append(notices, driver.Notice{
			ID:     "folder-owner",
			Text:   fmt.Sprintf("The lock folder belongs to user %d, who may rename it or remove files in it, which ends the locks that they stand for.", owner),
			Remedy: fmt.Sprintf("chown %d %s", os.Geteuid(), b.dir.path),
		})
	}
	if above := replaceable(b.dir.path); above != "" {
		notices = append(notices, driver.Notice{
			ID:     "folder-path",
			Text:   fmt.Sprintf("Other users may rename folders in %s, and with them the lock folder: there would be two sets of locks.", above),
			Remedy: "chmod +t " + above + ", or choose another folder.",
		})
	}
	return notices, nil
}

// replaceable returns the first folder above dir in which others may rename what is not theirs; empty if there is none.
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

// probe makes, writes, locks and removes a file in dir.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return err
	}
	_, writeErr := f.Write(make([]byte, headerSize))
	_, lockErr := tryFlock(f)
	return errors.Join(writeErr, lockErr, f.Close(), os.Remove(f.Name()))
}
