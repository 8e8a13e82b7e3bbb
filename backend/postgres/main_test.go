package postgres

import (
	"context"
	"os"
	"testing"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// openBackend opens a backend as Open does, without looking at the server.
func openBackend(_ context.Context, rawURL string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	return b, err
}

func TestMain(m *testing.M) {
	conformance.WorkerMain(openBackend)
	os.Exit(m.Run())
}
