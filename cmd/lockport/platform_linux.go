package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// executable is the program that this process runs, even if its file was replaced or deleted. It also names the guard "exe", so that killall(1) with our
// name spares the guard.
func executable() (string, error) { return "/proc/self/exe", nil }

// childAttributes adds the parent-death signal, a second safeguard if both lockport and the guard are killed.
func childAttributes(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	a.Pdeathsig = syscall.SIGKILL
	return a
}

// watch reports the signals that stop the child, and returns when it has ended. It leaves the child a zombie: until reap, no other process can get
// its process id, which is also its group's id.
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
		case n == 0 || err != nil: // it was continued between the two calls
		case c.status.Stopped():
			stops <- c.status.StopSignal()
		default: // killed between the two calls, and reaped by the second
			return
		}
	}
}

// groupAlive reports whether a process of group still runs. kill(2) also counts zombies, which a container may never reap. So groupAlive looks the
// members up in /proc.
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

// runsInGroup parses /proc/PID/stat: pid (comm) state ppid pgrp … num_threads (the 20th field). If only the leader of a thread group has ended, it
// shows as a zombie with more than one thread.
func runsInGroup(stat []byte, group int) bool {
	const state, pgrp, threads = 0, 2, 17 // counted behind (comm), which may contain anything
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= threads || string(fields[pgrp]) != strconv.Itoa(group) {
		return false
	}
	dead := string(fields[state]) == "Z" || string(fields[state]) == "X"
	return !dead || string(fields[threads]) != "1" && string(fields[threads]) != "0"
}

// raiseStop sends SIGTSTP to this process's job; call resumed when it was continued. Only the kernel knows whether a shell would continue the job; if
// none would, the default action of SIGTSTP does nothing. Go cannot restore that default: its handler stays after signal.Reset and swallows the
// signal.
func raiseStop() (resumed func()) {
	// An all-zero action is the default one on every architecture. The old action is opaque.
	var byDefault, old [64]byte
	errno := setAction(syscall.SIGTSTP, &byDefault, &old)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	return func() {
		if errno == 0 {
			_ = setAction(syscall.SIGTSTP, &old, nil)
		}
	}
}

func setAction(s syscall.Signal, action, old *[64]byte) syscall.Errno {
	const sizeOfMask = 8
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(action)),
		uintptr(unsafe.Pointer(old)), sizeOfMask, 0, 0)
	return errno
}
