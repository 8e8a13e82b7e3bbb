package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector. If the file is locked, it reports who last wrote to it. A program that locks without writing, such as
// flock(1), is reported as foreign, without an owner.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := b.begin(ctx); err != nil {
		return driver.Status{}, err
	}
	st, err := b.inspect(name, nil)
	return st, b.dir.explain(err)
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(b.dir.path)
	if err != nil {
		return nil, b.dir.explain(err)
	}
	var all []driver.Status
	seen := make(map[string]bool) // a name's lock and its permits have a file each
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		if !lockFileName.MatchString(file.Name()) {
			continue
		}
		var st driver.Status
		err := b.look(file.Name(), os.O_RDONLY, func(f *lockFile) error { st.Name, _ = f.readLine(); return nil })
		if name := st.Name; err == nil && name != "" && !seen[name] && strings.HasPrefix(name, prefix) {
			seen[name] = true
			if st, err = b.inspect(name, files); st.Held {
				all = append(all, st)
			}
		}
		if err != nil {
			return nil, b.dir.explain(err)
		}
	}
	return all, nil
}

// look calls f with a file, opened with flag, if it exists. It frees a lock that f takes.
func (b *Backend) look(file string, flag int, f func(*lockFile) error) error {
	opened, err := openLock(b.path(file), flag)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer opened.close()
	return f(opened)
}

// inspect returns the holders of name: a writer, or readers, or else holders of permits. files are the folder's, if the caller has them.
func (b *Backend) inspect(name string, files []fs.DirEntry) (driver.Status, error) {
	nobody := driver.Status{Name: name, Waiters: -1}
	st := nobody
	err := b.look(FileName(name), os.O_RDONLY, func(f *lockFile) (err error) {
		if err = f.holder(&st); err == nil && !st.Held {
			st.Shared, err = isHeld(f.tryLock())
		}
		return err
	})
	switch {
	case err != nil || st.Held:
	case st.Shared:
		if st, err = b.holders(reader, st, files); !st.Held { // a foreign program, or the guard process of a killed reader
			st.Held, st.Foreign = true, true
		}
	default:
		err = b.look(gateName(name), os.O_RDONLY, func(f *lockFile) error { _, st.Permits = f.readLine(); return nil })
		if err == nil && st.Permits > 0 {
			st, err = b.holders(permit, st, files)
		}
	}
	if err != nil || !st.Held {
		return nobody, err
	}
	return st, nil
}

// holders returns the holders of exclusive locks on name's files of a kind. Each is described by st and its own file. files are the folder's, if the
// caller has them.
func (b *Backend) holders(kind string, st driver.Status, files []fs.DirEntry) (_ driver.Status, err error) {
	if files == nil {
		if files, err = os.ReadDir(b.dir.path); err != nil {
			return st, err
		}
	}
	prefix := stem(st.Name) + kind
	first, _ := slices.BinarySearchFunc(files, prefix, func(f fs.DirEntry, prefix string) int { return strings.Compare(f.Name(), prefix) })
	holder := st
	for _, file := range files[first:] {
		if !strings.HasPrefix(file.Name(), prefix) {
			break
		}
		h := st
		if err := b.look(file.Name(), os.O_RDONLY, func(f *lockFile) error { return f.holder(&h) }); err != nil {
			return st, err
		}
		switch {
		case h.Held && holder.Held:
			holder.Others = append(holder.Others, h)
		case h.Held:
			holder = h
		}
	}
	return holder, nil
}

// holder sets in st who has locked f exclusively, if anybody has.
func (f *lockFile) holder(st *driver.Status) error {
	err := f.read()
	if err == nil {
		st.Held, err = isHeld(f.tryShare())
	}
	if r := f.record; st.Held && r.held {
		st.Owner, st.Token, st.Since = r.owner, r.token, r.since
	} else {
		st.Foreign = st.Held
	}
	return err
}

// isHeld reports whether an attempt to lock a file found it held. If not, the file is locked for a moment: a concurrent claim then finds it held.
func isHeld(err error) (bool, error) {
	if errors.Is(err, driver.ErrHeld) {
		return true, nil
	}
	return false, err
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	if err := b.begin(ctx); err != nil {
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
	real, err := filepath.EvalSymlinks(b.dir.path) // others may rename links, and folders that they lead to
	if err != nil {
		return nil, b.dir.explain(err)
	}
	if dir := cmp.Or(openAbove(b.dir.path), openAbove(real)); dir != "" {
		warn("folder-path", fmt.Sprintf("Other users may rename folders in %s, and with them the lock folder. Then there would be two sets of locks.", dir),
			"chmod +t "+dir+", or choose another folder.")
	}
	return notices, nil
}

// openAbove is the nearest open folder above path, which is absolute; empty: there is none.
func openAbove(path string) string {
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if fi, err := os.Stat(path); err == nil && isOpen(fi) {
			return path
		}
	}
	return ""
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
	return cmp.Or(writeErr, (&lockFile{File: f}).tryLock(), f.Close(), os.Remove(f.Name()))
}
