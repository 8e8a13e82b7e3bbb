//go:build linux || darwin

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal says whether f is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// inForeground says whether standard input is this process's terminal, and its group is the one that may read it.
func inForeground() bool { return foreground() == unix.Getpgrp() }

// foreground is the foreground group of the terminal on standard input, 0 if there is none.
func foreground() int {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// setForeground makes group the foreground group of the terminal on standard input. SIGTTOU must be ignored: that is
// what a process in the background would get for it.
func setForeground(group int) {
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group) // the terminal may have hung up
}

// takeBackForeground undoes setForeground(group), unless somebody else has taken the terminal meanwhile.
func takeBackForeground(group int) {
	if foreground() == group {
		setForeground(unix.Getpgrp())
	}
}
