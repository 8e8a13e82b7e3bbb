//go:build linux || darwin || freebsd

package file_test

import (
	"context"
	"os"
	"testing"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

func openURL(_ context.Context, rawURL string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	return b, err
}

func TestMain(m *testing.M) {
	conformance.WorkerMain(openURL)
	if mode := os.Getenv(childMode); mode != "" {
		child(mode, os.Getenv(childDir))
		os.Exit(0)
	}
	os.Exit(m.Run())
}
