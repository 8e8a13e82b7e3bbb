//go:build linux || darwin || freebsd

package file_test

import (
	"context"
	"os"
	"testing"

	"github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

func open(_ context.Context, dir string) (driver.Backend, error) {
	return file.NewBackend(file.Options{Dir: dir})
}

func TestMain(m *testing.M) {
	conformance.WorkerMain(open)
	if mode := os.Getenv(childMode); mode != "" {
		child(mode, os.Getenv(childDir))
		os.Exit(0)
	}
	os.Exit(m.Run())
}
