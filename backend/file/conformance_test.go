//go:build linux || darwin || freebsd

package file_test

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "file").Config(t, openURL, nil))
}
