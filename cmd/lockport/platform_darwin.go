package main

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

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

// groupAlive reports whether a process of group still runs. kill(2) fails with EPERM both for zombies and for processes of other users.
func groupAlive(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return false
	}
	const zombie = 5 // SZOMB
	members, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	return err != nil || slices.ContainsFunc(members, func(p unix.KinfoProc) bool { return p.Proc.P_stat != zombie })
}

// raiseStop stops this process's job. If no shell would continue it, which the kernel knows, it is not stopped: SIGSTOP, unlike SIGTSTP, would stop it
// all the same.
func raiseStop() (resumed func()) {
	self, err := unix.SysctlKinfoProc("kern.proc.pid", os.Getpid())
	_ = syscall.Kill(0, syscall.SIGTSTP) // for the others: Go's handler swallows our own
	if err == nil && self.Eproc.Jobc > 0 {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	}
	return func() {}
}
