//go:build !unix

package worker

import (
	"errors"
	"os"
)

// Freeze is not supported on this system.
func Freeze(*os.Process) error { return errors.ErrUnsupported }

// Thaw is not supported on this system.
func Thaw(*os.Process) error { return errors.ErrUnsupported }

// Running reports whether a process runs. On this system it is always false.
func Running(int) bool { return false }
