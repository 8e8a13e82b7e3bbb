package mysql

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// openURL opens a backend as Open does, without looking at the server.
func openURL(_ context.Context, rawURL string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	return b, err
}

func TestMain(m *testing.M) {
	conformance.WorkerMain(openURL)
	os.Exit(m.Run())
}

// isOp tells requests apart by their statements.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return bytes.Contains(request, []byte("SELECT GET_LOCK("))
	case conformance.OpRenew:
		return len(request) == 5 && request[4] == 0x0e // COM_PING
	case conformance.OpRelease:
		return bytes.Contains(request, []byte("SELECT RELEASE_LOCK("))
	}
	return true
}
