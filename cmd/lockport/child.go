//go:build linux || darwin

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is the command in its process group. The group's id is the child's process id.
type child struct {
	group  int
	gate   *os.File              // a byte written here starts the command; its end ends the process that waits
	stops  <-chan syscall.Signal // signals that stopped it; closed when it has ended
	status syscall.WaitStatus    // see reap
}

// findCommand finds the command before a lock is acquired. It searches PATH as a shell does; for root, a match in a relative folder is an error.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot) && os.Geteuid() != 0:
		return path, nil
	case errors.Is(err, exec.ErrDot): // another user may have put it there
		return "", failf(exitNotFound, "command not found: %s (root's PATH must not name the current folder: write ./%s)", name, path)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", failf(exitNotFound, "command not found: %s", name)
	}
	return "", failf(exitCannotStart, "cannot start %s: %v", name, err)
}

// isPipe reports whether f leads to another process. If standard input or output does, that may be a program that needs the terminal's foreground,
// such as a pager. The command then gets the foreground when it first asks for it (see handleStop).
func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}

// startChild starts a process that becomes the command when the gate opens, and never if this process dies first. So the command never runs before
// the guard knows its group.
func startChild(path string, command, env []string) (*child, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	waits, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer waits.Close()
	// The command may expect inherited descriptors at their numbers, so the gate keeps its own.
	fd := waits.Fd()
	_, _ = unix.FcntlInt(fd, unix.F_SETFD, 0) // so that it is inherited
	lent := ttyFd() == 0 && inForeground() && !isPipe(os.Stdout)
	cmd := &exec.Cmd{
		Path:        self,
		Args:        append([]string{command[0], verbExec, strconv.Itoa(int(fd)), path}, command...),
		Env:         env,
		Stdin:       os.Stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		SysProcAttr: childAttributes(&syscall.SysProcAttr{Setpgid: true, Foreground: lent}),
	}
	started, stops := make(chan error), make(chan syscall.Signal)
	c := &child{gate: gate, stops: stops}
	go func() {
		// Linux's parent-death signal follows the thread that started the child, so that thread must live as long as the child.
		runtime.LockOSThread()
		err := cmd.Start()
		if err == nil {
			c.group = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			c.watch(stops)
			close(stops)
		}
	}()
	if err := <-started; err != nil {
		if lent { // the process got the terminal, and ended before it could run its program
			setForeground(unix.Getpgrp())
		}
		gate.Close()
		return nil, err
	}
	return c, nil
}

// reap returns the status of a child that has ended. Afterwards its process id may belong to another process.
func (c *child) reap() syscall.WaitStatus {
	for range c.stops { // until it has ended
	}
	for {
		var status syscall.WaitStatus // Wait4 sets it to 0 if it fails
		switch _, err := syscall.Wait4(c.group, &status, 0, nil); err {
		case nil:
			return status
		case syscall.EINTR:
		default: // watch has reaped it
			return c.status
		}
	}
}

// Hidden first arguments with which lockport starts itself.
const (
	verbExec  = "__exec"
	verbGuard = "__guard"
)

// hiddenVerbs run in processes that lockport starts from its own binary.
var hiddenVerbs = map[string]func(c *console, args []string) error{
	verbExec:  execVerb,
	verbGuard: guardVerb,
}

// execVerb becomes the command: GATE PATH COMMAND [ARGUMENT…]. It waits for one byte from the gate, a descriptor. End of file means that lockport
// died before the command could start.
func execVerb(c *console, args []string) error {
	if len(args) < 3 {
		return usagef("%s is internal to lockport", verbExec)
	}
	fd, _ := strconv.Atoi(args[0])
	gate := os.NewFile(uintptr(fd), "gate")
	if n, _ := gate.Read(make([]byte, 1)); n == 0 {
		return exitWith(exitCannotStart)
	}
	gate.Close()
	path, command := args[1], args[2:]
	// lockport ignores SIGTTOU. exec resets a caught signal to its default, but not an ignored one.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	err := syscall.Exec(path, command, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) { // a script without an interpreter line: as execvp(3) does
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, command[1:]...), os.Environ())
	}
	code := exitCannotStart
	if errors.Is(err, syscall.ENOENT) {
		code = exitNotFound
		if interpreter, ok := strings.CutPrefix(firstLine(path), "#!"); ok { // path exists
			err = fmt.Errorf("its interpreter %q: %w", interpreter, err)
		}
	}
	return failf(code, "cannot start %s: %v", command[0], err)
}

// firstLine returns the first line of a file, or its beginning, or "".
func firstLine(path string) string {
	script, _ := os.Open(path) // if there is none, Read fails
	head := make([]byte, 256)
	n, _ := script.Read(head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	return line
}

// signalGroup sends s to every process of group. An empty group is not an error.
func signalGroup(group int, s syscall.Signal) error {
	err := syscall.Kill(-group, s)
	if err == syscall.ESRCH || err == syscall.EPERM && !groupAlive(group) { // macOS says EPERM if only zombies are left
		return nil
	}
	return err
}

// killGroup kills every process of group and returns when none is left. It waits for a process that it cannot kill: one that changed its user, or
// that the kernel blocks on a dead disk.
func killGroup(group int) {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		_ = signalGroup(group, syscall.SIGKILL)
		if !groupAlive(group) {
			return
		}
		time.Sleep(pause) // the kernel reports the end of children only
	}
}
