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
