package main

import (
	"os"
	"syscall"
)

// executable is the program that this process runs.
func executable() (string, error) { return os.Executable() }

// childAttributes changes nothing: macOS has no parent-death signal.
func childAttributes(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }

// watch reports the signals that stop the child, and returns when it has ended. It reaps the child, because waitid(2) is unreliable here
// (go.dev/issue/19314).
func (c *child) watch(stops chan<- syscall.Signal) {
	for {
		_, err := syscall.Wait4(c.group, &c.status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || c.status.Exited() || c.status.Signaled() {
			return
		}
		stops <- syscall.Signal(c.status>>8) & 0xFF // here, Go's Stopped and StopSignal do not count SIGSTOP
	}
}

// groupAlive reports whether a process of group still runs. Here kill(2) does not count zombies.
func groupAlive(group int) bool { return syscall.Kill(-group, 0) == nil }

// stopJob stops this process's job and, once it was continued, calls resumed. If no shell of the same session started this process, nobody would
// continue it, so it is not stopped.
func stopJob(resumed func()) {
	_ = syscall.Kill(0, syscall.SIGTSTP) // for the others: Go's handler swallows our own
	parent, err := syscall.Getsid(syscall.Getppid())
	own, err2 := syscall.Getsid(0)
	if err == nil && err2 == nil && parent == own {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	}
	resumed()
}
