//go:build !unix

package worker

import "os/exec"

// start starts cmd. No shell guards it here. A worker ends when its standard input does, which closes with this process.
func start(cmd *exec.Cmd) (ended func(), err error) { return func() {}, cmd.Start() }
