package environment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// FileNotice bounds how long the holder of a file that is gone believes in it (docs/guarantees.md, P3b).
const FileNotice = 500 * time.Millisecond

// fileEnvironment is a folder on this machine.
var fileEnvironment = Environment{
	Name: "file", Title: "a folder of one machine", Backend: "file",
	TTL:      time.Second, // it has no effect, but makes workers hold their locks for shorter times
	Sessions: true, Tokens: true, RemovalNotice: FileNotice, Local: true,
	Start: func(ctx context.Context) (Servers, error) {
		parent, err := os.MkdirTemp("", "lockport-faults-")
		if err != nil {
			return nil, err
		}
		f := &Folder{base: base{what: "a folder of one machine"}, path: filepath.Join(parent, "locks"), foreign: make(map[string]*os.File)}
		if err := f.Heal(ctx); err != nil {
			return nil, errors.Join(err, os.RemoveAll(parent))
		}
		return f, nil
	},
}

// Folder is where locks are files.
type Folder struct {
	base
	path string

	mu      sync.Mutex
	foreign map[string]*os.File // those that somebody else has locked
}

// URL implements Servers.
func (f *Folder) URL([]string) string { return "file://" + f.path }

// Folder implements Servers.
func (f *Folder) Folder() (string, error) { return f.path, nil }

// Close removes the folder.
func (f *Folder) Close() error { return os.RemoveAll(filepath.Dir(f.path)) }

// Heal makes the folder if there is none. One that was moved away stays there, since holders may have it open.
func (f *Folder) Heal(context.Context) error {
	err := os.Mkdir(f.path, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// file is the file of the lock on name, by the layout on the backend's page.
func (f *Folder) file(name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(f.path, fmt.Sprintf("*-%x.lock", sha256.Sum256([]byte(name)))))
	switch {
	case err != nil:
		return "", err
	case len(files) != 1:
		return "", ErrNotHeld
	}
	return files[0], nil
}

// Remove removes the file of the lock.
func (f *Folder) Remove(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.foreign[name]; other != nil {
		delete(f.foreign, name)
		return other.Close()
	}
	path, err := f.file(name)
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// Overwrite locks a new file in the old one's place, as flock(1) would.
func (f *Folder) Overwrite(_ context.Context, name string) error {
	path, err := f.file(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	other, err := os.Create(path)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.foreign[name] = other
	return flock(other)
}

// Restart without the data removes all files, as a reboot empties /run/lock.
func (f *Folder) Restart(_ context.Context, keepData bool) error {
	if keepData {
		return f.lacks("no machine is restarted")
	}
	files, err := filepath.Glob(filepath.Join(f.path, "*.lock"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// MoveAway moves the folder to where nobody looks for it.
func (f *Folder) MoveAway() (to string, err error) {
	to, err = os.MkdirTemp(filepath.Dir(f.path), "old-")
	if err != nil {
		return "", err
	}
	to = filepath.Join(to, "locks")
	return to, os.Rename(f.path, to)
}

// MoveBack ends MoveAway.
func (f *Folder) MoveBack(from string) error { return os.Rename(from, f.path) }
