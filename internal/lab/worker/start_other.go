//go:build unix && !linux

package worker

import (
	"os/exec"
	"strconv"
)

// start starts cmd so that it is killed when this process ends, however that happens. A shell waits for a line from us; if its input ends without
// one, it kills the child. Call ended after cmd.Wait.
func start(cmd *exec.Cmd) (ended func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	guard := exec.Command("/bin/sh", "-c", `read -r line || kill -9 "$1"`, "sh", strconv.Itoa(cmd.Process.Pid))
	input, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	return func() {
		_, _ = input.Write([]byte("\n"))
		_ = input.Close()
		_ = guard.Wait()
	}, nil
}
