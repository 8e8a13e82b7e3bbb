//go:build !linux

package conformance

import "os/exec"

// startChild starts cmd, which ends when its standard input does.
func startChild(cmd *exec.Cmd) error { return cmd.Start() }
