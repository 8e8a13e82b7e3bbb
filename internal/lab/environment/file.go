package environment

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Folder is a folder on this machine that holds locks as files.
type Folder struct {
	base
	path string
}

func startFolder(context.Context) (Servers, error) {
	parent, err := servers.Folder("faults")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(parent, "locks")
	return &Folder{baseOf(func() string { return "file://" + path }, servers.SetOf()), path}, os.Mkdir(path, 0o700)
}

// Close removes the folder.
func (f *Folder) Close() error {
	f.end()
	return os.RemoveAll(filepath.Dir(f.path))
}

// Heal creates the folder if it is missing. A folder that was moved away stays there, since holders may have it open.
func (f *Folder) Heal(context.Context) error { return os.MkdirAll(f.path, 0o700) }

// files returns the files of locks. key is "*" or the end of a file name, by the layout on the backend's page.
func (f *Folder) files(key string) ([]string, error) {
	return filepath.Glob(filepath.Join(f.path, key+".lock"))
}

// remove removes the file of the lock on name and returns its path.
func (f *Folder) remove(name string) (string, error) {
	files, err := f.files(fmt.Sprintf("*-%x", sha256.Sum256([]byte(name))))
	switch {
	case err != nil:
		return "", err
	case len(files) != 1:
		return "", ErrNotHeld
	}
	return files[0], os.Remove(files[0])
}

// Remove removes the file of the lock.
func (f *Folder) Remove(_ context.Context, name string) error {
	_, err := f.remove(name)
	return err
}

// Overwrite replaces the lock's file by a new one and locks it, as flock(1) would.
func (f *Folder) Overwrite(_ context.Context, name string) error {
	path, err := f.remove(name)
	if err != nil {
		return err
	}
	other, err := os.Create(path)
	if err != nil {
		return err
	}
	context.AfterFunc(f.open, func() { _ = other.Close() })
	return flock(other)
}

// Leftovers implements Locks. The conformance suite asks the backend instead.
func (f *Folder) Leftovers(context.Context, string) ([]string, error) {
	return nil, cannot("list leftovers")
}

// Restart without the data removes all files, like a reboot that empties /run/lock.
func (f *Folder) Restart(_ context.Context, keepData bool) error {
	if keepData {
		return cannot("restart the machine")
	}
	files, err := f.files("*")
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// MoveAway renames the folder, so that it is missing until back is called.
func (f *Folder) MoveAway() (back func() error, err error) {
	away := f.path + "-" + rand.Text()
	return func() error { return os.Rename(away, f.path) }, os.Rename(f.path, away)
}
