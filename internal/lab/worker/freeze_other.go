//go:build !unix

package worker

import (
	"errors"
	"os"
)

// Freeze is not to be had on this system.
func Freeze(*os.Process) error { return errors.ErrUnsupported }

// Thaw is not to be had either.
func Thaw(*os.Process) error { return errors.ErrUnsupported }

// Running says whether a process has not ended. Here nobody can tell.
func Running(int) bool { return false }
