//go:build !unix

package fencetest

import (
	"errors"
	"os"
)

func stop(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
