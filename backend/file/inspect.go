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

// Inspect implements driver.Inspector. If the file is locked, it reports who last wrote to it. A program that locks without writing, such as
// flock(1), is reported as foreign, without an owner.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := b.beginRead(ctx); err != nil {
		return driver.Status{}, err
	}
	st, err := b.inspect(FileName(name))
	if err == nil && !st.Held {
		var permits driver.Status
		if permits, err = b.inspect(gateName(name)); permits.Held {
			st = permits
		}
	}
	st.Name = name
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if err := b.beginRead(ctx); err != nil {
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
		if _, part := split(file.Name()); !strings.HasSuffix(file.Name(), suffix) || part != "" && part != gate {
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

// beginRead is begin for a call that only reads.
func (b *Backend) beginRead(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begin(ctx)
}

// inspect returns the holders of the lock or of the permits that belong to this file or gate.
func (b *Backend) inspect(file string) (driver.Status, error) {
	nobody := driver.Status{Waiters: -1}
	st, err := b.holder(file)
	stem, part := split(file)
	nobody.Name = st.Name
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nobody, nil
	case err != nil:
		return nobody, b.dir.explain(err)
	case part == gate: // nobody locks it
		nobody.Permits = st.Permits
		all, err := b.holders(stem, permit, st.Permits, nobody)
		return all, b.dir.explain(err)
	case st.Held:
		return st, nil
	}
	nobody.Shared = true
	all, err := b.holders(stem, reader, mostReaders, nobody)
	if err == nil && !all.Held {
		err = b.sharedByOthers(file, &all)
	}
	return all, b.dir.explain(err)
}

// holders returns who has exclusive locks on the files of a kind, at most count. Each is described by st and its own file.
func (b *Backend) holders(stem, kind string, count int, st driver.Status) (driver.Status, error) {
	var all []driver.Status
	for i := range count {
		h, err := b.holder(numbered(stem, kind, i+1))
		if errors.Is(err, fs.ErrNotExist) && kind == reader {
			break // each reader takes the first free file, so there are no more
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return st, err
		}
		if h.Held {
			h.Name, h.Permits, h.Shared = st.Name, st.Permits, st.Shared
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		return driver.Status{Name: st.Name, Waiters: -1}, nil
	}
	if len(all) > 1 {
		all[0].Others = all[1:]
	}
	return all[0], nil
}

// sharedByOthers sets in st whether a process without a record shares the file: a foreign program, or the guard process of a killed reader.
func (b *Backend) sharedByOthers(file string, st *driver.Status) error {
	f, err := openLock(filepath.Join(b.dir.path, file), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st.Held, err = isLocked(f, tryFlock)
	st.Shared, st.Foreign = st.Held, st.Held
	return err
}

// holder returns who has locked a file exclusively. The error is fs.ErrNotExist if there is no file.
func (b *Backend) holder(file string) (driver.Status, error) {
	st := driver.Status{Waiters: -1}
	f, err := openLock(filepath.Join(b.dir.path, file), os.O_RDONLY)
	if err != nil {
		return st, err
	}
	defer f.Close()
	st.Name, st.Permits, _ = readName(f, file)
	r, _, err := readRecord(f)
	if err != nil {
		return st, err
	}
	if st.Held, err = isLocked(f, tryShared); err != nil {
		return st, err
	}
	if st.Held && r.held {
		st.Owner, st.Token, st.Since = r.owner, r.token, r.since
	} else {
		st.Foreign = st.Held
	}
	return st, nil
}

// isLocked reports whether f is locked so that try fails. It locks f for a moment: a concurrent claim then finds it held.
func isLocked(f *os.File, try func(*os.File) (bool, error)) (bool, error) {
	free, err := try(f)
	if free {
		err = unflock(f)
	}
	return !free, err
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	if err := b.beginRead(ctx); err != nil {
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
	if _, unsure, _ := remoteFS(b.dir.path); unsure {
		warn("file-system", "The lock folder is on a file system in user space (FUSE), which may be shared with other machines.", "Choose a folder on a local disk.")
		notices[0].Unknown = true
	}
	if isOpen(fi) {
		warn("folder-mode", "Other users may remove files in the lock folder, which ends the locks on them.", "chmod go-w "+b.dir.path)
	}
	if owner := ownerOf(fi); owner != os.Geteuid() && owner != 0 {
		warn("folder-owner", fmt.Sprintf("The lock folder belongs to user %d, who may rename it or remove files in it, which ends the locks on them.", owner),
			fmt.Sprintf("chown %d %s", os.Geteuid(), b.dir.path))
	}
	for dir := b.dir.path; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		if fi, err := os.Stat(dir); err == nil && isOpen(fi) {
			warn("folder-path", fmt.Sprintf("Other users may rename folders in %s, and with them the lock folder. Then there would be two sets of locks.", dir),
				"chmod +t "+dir+", or choose another folder.")
			break
		}
	}
	return notices, nil
}

// isOpen reports whether users other than its owner may rename and remove entries of a folder.
func isOpen(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o022 != 0 && fi.Mode()&fs.ModeSticky == 0 }

// probe creates, writes, locks and removes a file in dir.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return err
	}
	_, writeErr := f.Write(make([]byte, headerSize))
	_, lockErr := tryFlock(f)
	return errors.Join(writeErr, lockErr, f.Close(), os.Remove(f.Name()))
}
