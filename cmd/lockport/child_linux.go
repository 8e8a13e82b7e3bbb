package main

import (
	"syscall"
	"unsafe"
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
	const pPID = 1
	defer close(events)
	for {
		var info [128]byte // siginfo_t
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			syscall.WEXITED|syscall.WSTOPPED|syscall.WNOWAIT, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return
		}
		status, ended := siginfoStatus(info)
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

// siginfoStatus makes a wait status of what waitid(2) reports: si_code, the third int, and si_status, the sixth (behind si_pid and si_uid,
// which begin at a multiple of a pointer's size).
func siginfoStatus(info [128]byte) (status syscall.WaitStatus, ended bool) {
	const exited, killed, dumped = 1, 2, 3
	const pidAt = (12 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
	code := *(*int32)(unsafe.Pointer(&info[8]))
	value := *(*int32)(unsafe.Pointer(&info[pidAt+8]))
	switch code {
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
