//go:build linux || darwin || freebsd

package file_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(peer.Open)
	if os.Getenv(childDir) != "" {
		fmt.Println(holdInChild())
		os.Exit(1)
	}
	os.Exit(m.Run())
}
