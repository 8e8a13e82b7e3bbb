//go:build linux || darwin

package main

import (
	"syscall"
	"time"
)

// signalGroup sends s to every process of group. That nobody is left to get it is no error.
func signalGroup(group int, s syscall.Signal) error {
	if err := syscall.Kill(-group, s); err != nil && err != syscall.ESRCH {
		return err
	}
	return nil
}

// killGroup kills every process of group and returns when none is left. A process that cannot be killed, since it changed its
// user, or that waits for a dead disk in the kernel, keeps it waiting.
func killGroup(group int) {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		_ = signalGroup(group, syscall.SIGKILL)
		if !groupAlive(group) {
			return
		}
		time.Sleep(pause) // the kernel announces the end of children only
	}
}
