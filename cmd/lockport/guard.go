//go:build linux || darwin

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// guard is a small process in a session of its own that kills the command's group when lockport dies (its pipe closes),
// or is stopped, frozen or starved while the lock's validity runs out. It inherits the descriptors that hold the lock, if the
// backend's locks are descriptors, so that the lock is not free before the group is gone.
type guard struct {
	process *os.Process
	pipe    *os.File
	told    time.Time     // the last deadline that the guard was told
	gone    chan struct{} // closed when the process has ended
}

func startGuard(group int, holding []*os.File) (*guard, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	reads, writes, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reads.Close()
	cmd := &exec.Cmd{
		Path:        self,
		Args:        []string{"lock-guard", stageGuard, strconv.Itoa(group)},
		Env:         []string{},
		Dir:         "/",
		Stdin:       reads,
		ExtraFiles:  holding,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		writes.Close()
		return nil, err
	}
	g := &guard{process: cmd.Process, pipe: writes, gone: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(g.gone) }()
	return g, nil
}

// tell tells the guard when to kill the group unless it is told a later instant before.
func (g *guard) tell(deadline time.Time) {
	if deadline.Sub(g.told).Abs() < time.Millisecond {
		return // as before: it is computed anew from two clocks each time
	}
	g.told = deadline
	_ = g.pipe.SetWriteDeadline(time.Now().Add(time.Second)) // a guard that is stopped reads nothing
	_, _ = fmt.Fprintln(g.pipe, int64(time.Until(deadline))) // one that is gone is replaced
}

// release ends the guard, so that it kills nobody, and returns when its descriptors are closed: a lock that is a
// descriptor is free only then.
func (g *guard) release() {
	_ = g.process.Kill()
	<-g.gone
	g.pipe.Close()
}

// guardStage is the guard's own side: GROUP. Standard input is the pipe, with deadlines, as nanoseconds from now.
func guardStage(_ *console, args []string) error {
	// Whoever ends everything (a service manager, a terminal) sends these to lockport too, which then ends the guard.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTSTP)
	group, err := guardedGroup(args)
	if err != nil {
		return err
	}
	deadlines := make(chan time.Duration)
	go func() {
		defer close(deadlines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if left, err := strconv.ParseInt(in.Text(), 10, 64); err == nil {
				deadlines <- time.Duration(left)
			}
		}
	}()
	var expired <-chan time.Time
	for {
		select {
		case left, ok := <-deadlines:
			if !ok {
				killGroup(group)
				return nil
			}
			expired = time.After(left)
		case <-expired:
			killGroup(group)
			return nil
		}
	}
}

func guardedGroup(args []string) (int, error) {
	if len(args) == 1 {
		if group, err := strconv.Atoi(args[0]); err == nil && group > 1 {
			return group, nil
		}
	}
	return 0, usagef("%s is for lockport itself", stageGuard)
}
