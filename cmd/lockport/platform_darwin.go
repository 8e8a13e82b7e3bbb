package main

import (
	"os"
	"syscall"
)

// executable is the program that this process runs.
func executable() (string, error) { return os.Executable() }

// childAttributes: there is no parent-death signal here.
func childAttributes(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }

// watch reports when the child stops, and at last that it ended. waitid(2) cannot be relied on here (go.dev/issue/19314), so the
// child is reaped before its end is reported.
func watch(pid int, events chan<- syscall.WaitStatus) {
	defer close(events)
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return
		}
		events <- status
		if !status.Stopped() {
			return
		}
	}
}

// reap: watch did.
func reap(int) {}

// groupAlive says whether a process of group still runs. Here kill(2) does not count zombies.
func groupAlive(group int) bool { return syscall.Kill(-group, 0) == nil }

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
