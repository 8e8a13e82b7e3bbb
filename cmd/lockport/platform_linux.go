package main

import (
	"bytes"
	"os"
	"strconv"
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

// watch reports what stops the child, and returns when it has ended, leaving it a zombie: until reap, its process id, which is its
// group's number too, can belong to nobody else.
func (c *child) watch(stops chan<- syscall.Signal) {
	const stopped = 5 // CLD_STOPPED
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.group, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Code != stopped {
			return
		}
		switch n, err := syscall.Wait4(c.group, &c.status, syscall.WUNTRACED|syscall.WNOHANG, nil); {
		case n == 0 || err != nil: // it went on before it was asked why it had stopped
		case c.status.Stopped():
			stops <- c.status.StopSignal()
		default: // killed between the two calls, and reaped by the second
			return
		}
	}
}

// groupAlive says whether a process of group still runs. Zombies do not, yet kill(2) counts them, and in a container
// nobody may ever reap them: so the members are looked up in /proc.
func groupAlive(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return false
	}
	processes, err := os.ReadDir("/proc")
	for _, p := range processes {
		stat, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err == nil && runsInGroup(stat, group) {
			return true
		}
	}
	return err != nil // kill(2) said so
}

// runsInGroup reads a line of /proc/PID/stat: pid (comm) state ppid pgrp … num_threads (the 20th field). A thread group whose
// leader has ended shows as a zombie, but with more than one thread.
func runsInGroup(stat []byte, group int) bool {
	const state, pgrp, threads = 0, 2, 17 // counted behind (comm), which may contain anything
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= threads || string(fields[pgrp]) != strconv.Itoa(group) {
		return false
	}
	dead := string(fields[state]) == "Z" || string(fields[state]) == "X"
	return !dead || string(fields[threads]) != "1" && string(fields[threads]) != "0"
}

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
