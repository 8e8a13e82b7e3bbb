//go:build linux || darwin || freebsd

package file_test

import (
	"context"
	"fmt"
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
	if os.Getenv(childDir) != "" {
		fmt.Println(holdInChild())
		os.Exit(1)
	}
	os.Exit(m.Run())
}
