package postgres

import (
	"os"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(peer.Open)
	os.Exit(m.Run())
}
