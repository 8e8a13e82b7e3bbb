//go:build linux || darwin

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// isTerminal says whether f is a terminal.
func isTerminal(f *os.File) bool {
	var size [4]uint16
	return ioctl(f.Fd(), syscall.TIOCGWINSZ, unsafe.Pointer(&size)) == nil
}

// inForeground says whether standard input is this process's terminal, and its group is the one that may read it.
func inForeground() bool { return foreground() == syscall.Getpgrp() }

// foreground is the foreground group of the terminal on standard input, 0 if there is none.
func foreground() int {
	var group int32
	if ioctl(0, syscall.TIOCGPGRP, unsafe.Pointer(&group)) != nil {
		return 0
	}
	return int(group)
}

// setForeground makes group the foreground group of the terminal on standard input. SIGTTOU must be ignored: that is
// what a process in the background would get for it.
func setForeground(group int) {
	g := int32(group)
	_ = ioctl(0, syscall.TIOCSPGRP, unsafe.Pointer(&g)) // the terminal may have hung up
}

// takeBackForeground undoes setForeground(group), unless somebody else has taken the terminal meanwhile.
func takeBackForeground(group int) {
	if foreground() == group {
		setForeground(syscall.Getpgrp())
	}
}

func ioctl(fd, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
