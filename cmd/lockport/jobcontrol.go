//go:build linux || darwin

package main

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handleStop handles a stopped command. Under job control the shell waits for lockport, not for the command, so lockport must stop too. It then
// cannot renew the lock: if it is not continued in time, the guard kills the command.
func (s *supervisor) handleStop(sig syscall.Signal) {
	lend := sig != syscall.SIGTSTP || lentTo(s.child.group) // SIGTSTP asks for nothing: a pager keeps the terminal
	switch {
	case !s.killAt.IsZero(), // SIGKILL is on its way
		sig == syscall.SIGSTOP: // not job control: only the command was paused, and the lock stays held
		return
	case sig != syscall.SIGTSTP && inForeground():
		// The terminal is lockport's to pass on: the shell has brought lockport to the foreground since, or the command started in the
		// background because another program reads its output.
	default:
		takeBackForeground(s.child.group)
		if deadline, ok := s.lock.Deadline(); ok && !s.o.ignore {
			s.c.say("stopped; unless continued within %v, %s is lost and the command killed",
				time.Until(deadline).Round(100*time.Millisecond), quoted(s.o.names))
		}
		s.stopJob(s.forward)
		if s.check(time.Now()); !s.killAt.IsZero() {
			return
		}
	}
	if lend && inForeground() {
		setForeground(s.child.group)
	}
	s.send(syscall.SIGCONT)
}

// stopJob stops this process and the others of its job, and returns after SIGCONT. It passes other signals to handle. It returns soon if no shell
// would continue the job (an orphaned group, a container's first process). The stop signal stops all threads, but perhaps after kill(2) has returned.
func (r *runner) stopJob(handle func(syscall.Signal)) {
	defer raiseStop()()
	patience := time.After(200 * time.Millisecond)
	for {
		select {
		case sig := <-r.signals:
			if sig == syscall.SIGCONT {
				return
			}
			handle(sig.(syscall.Signal))
		case <-patience:
			return
		}
	}
}

// dieOfInterrupt ends this process by SIGINT, after Ctrl-C. A shell ends its script only if it got the signal itself and its child died of it. The
// first process of a container cannot die of it.
func (r *runner) dieOfInterrupt() {
	target := os.Getpid()
	if r.key {
		target = 0 // the script, too
	}
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(target, syscall.SIGINT)
	time.Sleep(time.Second) // unless SIGINT is ignored, it ends this process first
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// ttyFd is a descriptor of this process's terminal: 0 if standard input is one, else that of /dev/tty, as pagers and password prompts open it; -1:
// there is none.
var ttyFd = sync.OnceValue(func() int {
	if _, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil {
		return 0
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
})

// inForeground reports whether this process's group is in the foreground of its terminal.
func inForeground() bool { return foreground() == unix.Getpgrp() }

// foreground is the foreground group of the terminal, 0 if there is none.
func foreground() int {
	group, _ := unix.IoctlGetInt(ttyFd(), unix.TIOCGPGRP) // 0 with an error
	return group
}

// setForeground makes group the foreground group of the terminal. SIGTTOU must be ignored: a background process gets it for this call.
func setForeground(group int) {
	_ = unix.IoctlSetPointerInt(ttyFd(), unix.TIOCSPGRP, group) // the terminal may have hung up
}

// lentTo reports whether group is the foreground group. macOS forgets a group when its last process has ended.
func lentTo(group int) bool {
	f := foreground()
	return f == group || runtime.GOOS == "darwin" && f != 0 && unix.Kill(-f, 0) == unix.ESRCH
}

// takeBackForeground undoes setForeground(group), unless another process has taken the terminal meanwhile.
func takeBackForeground(group int) {
	if lentTo(group) {
		setForeground(unix.Getpgrp())
	}
}
