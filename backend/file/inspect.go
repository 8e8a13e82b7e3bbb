package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector. It says who wrote to the file last, if the file is locked. A program that locked it without writing, such as
// flock(1), is foreign, and not known.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := b.reads(ctx); err != nil {
		return driver.Status{}, err
	}
	st, err := b.inspect(FileName(name))
	st.Name = name
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if err := b.reads(ctx); err != nil {
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

// reads is begin for a call that only reads.
func (b *Backend) reads(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begin(ctx)
}

// inspect reads one lock file.
func (b *Backend) inspect(file string) (driver.Status, error) {
	st := driver.Status{Waiters: -1}
	f, err := openLock(filepath.Join(b.dir.path, file), os.O_RDONLY)
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
	if st.Held, err = isFlocked(f); err != nil {
		return st, b.dir.explain(err)
	}
	if known := r.isOfHolder(); st.Held && known {
		st.Owner, st.Token, st.Since = r.owner, r.token, r.since
	} else {
		st.Foreign = st.Held
	}
	return st, nil
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	if err := b.reads(ctx); err != nil {
		return nil, err
	}
	fi, err := os.Stat(b.dir.path)
	if err == nil {
		err = probe(b.dir.path)
	}
	if err != nil {
		return nil, b.dir.explain(err)
	}
	var notices []driver.Notice
	warn := func(id, text, remedy string) {
		notices = append(notices, driver.Notice{ID: id, Text: text, Remedy: remedy})
	}
	if _, unsure, _ := remoteness(b.dir.path); unsure {
		warn("file-system", "The lock folder is on a file system in user space (FUSE), which may be shared with other machines.", "Choose a folder on a local disk.")
		notices[0].Unknown = true
	}
	if isOpen(fi) {
		warn("folder-mode", "Other users may remove files in the lock folder, which ends the locks that they stand for.", "chmod go-w "+b.dir.path)
	}
	if owner := ownerOf(fi); owner != os.Geteuid() && owner != 0 {
		warn("folder-owner", fmt.Sprintf("The lock folder belongs to user %d, who may rename it or remove files in it, which ends the locks that they stand for.", owner),
			fmt.Sprintf("chown %d %s", os.Geteuid(), b.dir.path))
	}
	for dir := b.dir.path; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		if fi, err := os.Stat(dir); err == nil && isOpen(fi) {
			warn("folder-path", fmt.Sprintf("Other users may rename folders in %s, and with them the lock folder: there would be two sets of locks.", dir),
				"chmod +t "+dir+", or choose another folder.")
			break
		}
	}
	return notices, nil
}

// isOpen reports whether others than its owner may rename and remove what is in a folder.
func isOpen(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o022 != 0 && fi.Mode()&fs.ModeSticky == 0 }

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
