package main

import "syscall"

// stopJob stops this process's job and, once it was continued, calls resumed. Where no shell of the same session started
// it, nobody would continue it, and it is not stopped.
func stopJob(resumed func()) {
	_ = syscall.Kill(0, syscall.SIGTSTP) // Go's handler swallows our own
	parent, err := syscall.Getsid(syscall.Getppid())
	own, err2 := syscall.Getsid(0)
	if err == nil && err2 == nil && parent == own {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	}
	resumed()
}
