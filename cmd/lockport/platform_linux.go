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

// groupAlive says whether a process of group still runs. Zombies do not, yet kill(2) counts them, and in a container
// nobody may ever reap them: so the members are looked up in /proc.
func groupAlive(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return false
	}
	names, err := readNames("/proc")
	if err != nil {
		return true // kill(2) said so
	}
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err == nil && runsInGroup(stat, group) {
			return true
		}
	}
	return false
}

func readNames(folder string) ([]string, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
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
