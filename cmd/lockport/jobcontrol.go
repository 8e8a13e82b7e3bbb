//go:build linux || darwin

package main

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopped deals with a command that was stopped. Under job control the shell waits for lockport, not for the command, so
// that lockport must stop too, and then cannot renew the lock: if nobody continues it in time, the guard kills the command.
func (s *supervisor) stopped(sig syscall.Signal) {
	switch {
	case !s.killAt.IsZero():
		return // SIGKILL is on its way
	case sig == syscall.SIGSTOP:
		return // not job control: somebody paused the command alone, and the lock stays held
	case sig != syscall.SIGTSTP && inForeground():
		// The terminal is ours to lend: the shell has brought lockport to the foreground since, or the command began in the background
		// because its output is read by another program.
	default:
		takeBackForeground(s.child.group)
		s.stopSelf()
		if s.check(time.Now()); !s.killAt.IsZero() {
			return
		}
	}
	if inForeground() {
		setForeground(s.child.group)
	}
	s.send(syscall.SIGCONT)
}

// stopSelf stops this process and the others of its job, and returns when somebody continued it, or at once where it
// cannot be stopped, since no shell would continue it (an orphaned group, a container's first process).
func (s *supervisor) stopSelf() {
	if deadline, ok := s.lock.Deadline(); ok && !s.o.ignore {
		s.c.say("stopped; unless continued within %v, %s is lost and the command killed",
			time.Until(deadline).Round(100*time.Millisecond), s.o.title())
	}
	stopJob(s.awaitContinue)
}

// awaitContinue returns when SIGCONT came. The stop signal stops all threads, but not necessarily before kill(2) has returned; if
// it did nothing at all, this returns soon.
func (s *supervisor) awaitContinue() {
	patience := time.NewTimer(200 * time.Millisecond)
	defer patience.Stop()
	for {
		select {
		case sig := <-s.signals:
			if sig == syscall.SIGCONT {
				return
			}
			s.pass(sig.(syscall.Signal))
		case <-patience.C:
			return
		}
	}
}

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
