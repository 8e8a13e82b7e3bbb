//go:build linux || darwin || freebsd

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/conformance"
)

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	observer := backend(t, dir)
	var mu sync.Mutex
	foreign := make(map[string]*os.File)
	conformance.Test(t, conformance.Config{
		Open:   open,
		Target: dir,
		Direct: dir,
		Faults: conformance.Faults{
			Remove: func(_ context.Context, name string) error {
				mu.Lock()
				defer mu.Unlock()
				if f := foreign[name]; f != nil {
					delete(foreign, name)
					return f.Close()
				}
				return os.Remove(filepath.Join(dir, file.FileName(name)))
			},
			// As flock(1) would, after somebody removed the file.
			Overwrite: func(_ context.Context, name string) error {
				path := filepath.Join(dir, file.FileName(name))
				if err := os.Remove(path); err != nil {
					return err
				}
				f, err := os.Create(path)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				foreign[name] = f
				return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			},
			// A reboot empties /run/lock.
			Restart: func(_ context.Context, keepData bool) error {
				if keepData {
					return conformance.ErrNoFault
				}
				files, err := filepath.Glob(filepath.Join(dir, "*.lock"))
				for _, f := range files {
					err = errors.Join(err, os.Remove(f))
				}
				return err
			},
			Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
				all, err := observer.List(ctx, prefix)
				var names []string
				for _, st := range all {
					names = append(names, fmt.Sprintf("%+v", st))
				}
				return names, err
			},
		},
	})
}
