package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

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
