package main

import (
	"syscall"
	"unsafe"
)

// stopJob sends SIGTSTP to this process's job and, once everybody has stopped and was continued, calls resumed. The kernel alone
// knows whether a shell would continue the job; where none would, the default action of SIGTSTP is to do nothing. Go
// cannot restore that default: its handler stays after signal.Reset and swallows the signal.
func stopJob(resumed func()) {
	// An action that is all zero is the default one, whatever the architecture's layout, and the old one is not looked into.
	var byDefault, old [64]byte
	if setAction(syscall.SIGTSTP, &byDefault, &old) == nil {
		defer func() { _ = setAction(syscall.SIGTSTP, &old, nil) }()
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	resumed()
}

func setAction(s syscall.Signal, action, old *[64]byte) error {
	const sizeOfMask = 8
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(action)),
		uintptr(unsafe.Pointer(old)), sizeOfMask, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
