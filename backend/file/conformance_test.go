//go:build linux || darwin || freebsd

package file

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "file").Config(t, peer.Open, nil))
}
