//go:build !unix

package worker

import (
	"errors"
	"os"
	"os/exec"
)

// Freeze is not supported on this system.
func Freeze(*os.Process) error { return errors.ErrUnsupported }

// Thaw is not supported on this system.
func Thaw(*os.Process) error { return errors.ErrUnsupported }

// Running reports whether a process runs. On this system it is always false.
func Running(int) bool { return false }

// start starts cmd. No shell guards it here. A worker ends when its standard input does, which closes with this process.
func start(cmd *exec.Cmd) (ended func(), err error) { return func() {}, cmd.Start() }
