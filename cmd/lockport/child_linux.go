package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// selfPath is this program, even if its file was replaced or deleted. As a side effect the guard is called "exe", so that
// killall(1) with our name spares it.
const selfPath = "/proc/self/exe"

// executable is the program that this process runs.
func executable() (string, error) { return selfPath, nil }

// childAttributes adds the parent-death signal: a second line behind the guard, should both be killed.
func childAttributes(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	a.Pdeathsig = syscall.SIGKILL
	return a
}

// watch reports when the child stops, and at last that it ended, leaving it a zombie: until reap, its process id, which is its
// group's number too, can belong to nobody else.
func watch(pid int, events chan<- syscall.WaitStatus) {
	defer close(events)
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		status, ended := endStatus(&info)
		if !ended {
			if n, err := syscall.Wait4(pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil); n == 0 || err != nil {
				continue // it went on before it was asked why it had stopped
			}
			ended = !status.Stopped() // killed between the two calls, and reaped by the second
		}
		events <- status
		if ended {
			return
		}
	}
}

// endStatus makes a wait status of what waitid(2) reports of a process that has ended: si_code, and si_status, which
// stands behind si_pid and si_uid. Those begin at a multiple of a pointer's size.
func endStatus(info *unix.Siginfo) (status syscall.WaitStatus, ended bool) {
	const exited, killed, dumped = 1, 2, 3
	const align = unsafe.Alignof(uintptr(0))
	const statusAt = (3*4+align-1)&^(align-1) + 2*4
	value := *(*int32)(unsafe.Add(unsafe.Pointer(info), statusAt))
	switch info.Code {
	case exited:
		return syscall.WaitStatus(value&0xff) << 8, true
	case killed, dumped:
		return syscall.WaitStatus(value & 0x7f), true
	}
	return 0, false
}

// reap ends the zombie.
func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}
