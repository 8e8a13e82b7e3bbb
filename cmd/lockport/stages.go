//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// The hidden first arguments with which lockport starts itself.
const (
	stageExec  = "__exec"
	stageGuard = "__guard"
)

// hiddenStages are what lockport starts itself for.
var hiddenStages = map[string]func(c *console, args []string) error{
	stageExec:  execStage,
	stageGuard: guardStage,
}

// execStage becomes the command: GATE PATH COMMAND [ARGUMENT…]. It waits at the gate, a descriptor, for one byte; an end of file
// means that lockport died before the command could begin.
func execStage(c *console, args []string) error {
	if len(args) < 3 {
		return usagef("%s is for lockport itself", stageExec)
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return usagef("%s is for lockport itself", stageExec)
	}
	gate := os.NewFile(uintptr(fd), "gate")
	if n, _ := gate.Read(make([]byte, 1)); n == 0 {
		return exitWith(exitCannotStart)
	}
	gate.Close()
	path, command := args[1], args[2:]
	// lockport ignores SIGTTOU. A caught signal is reset to its default by exec, an ignored one is not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	err = syscall.Exec(path, command, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) { // a script without an interpreter line: as execvp(3) does
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, command[1:]...), os.Environ())
	}
	code := exitCannotStart
	if errors.Is(err, syscall.ENOENT) {
		code = exitNotFound
	}
	return failf(code, "cannot start %s: %v", command[0], err)
}
