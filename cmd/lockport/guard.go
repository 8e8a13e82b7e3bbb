//go:build linux || darwin

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockport/lockport/internal/clock"
)

// guard is a small process in a session of its own that kills the command's group when lockport dies (its pipe closes),
// or is stopped, frozen or starved while the lock's validity runs out. It inherits the descriptors that hold the lock, if the
// backend's locks are descriptors, so that the lock is not free before the group is gone.
type guard struct {
	process *os.Process
	pipe    *os.File
	told    time.Time     // the last deadline that the guard was told
	late    bool          // when the one before had passed, so that it may have killed the group
	gone    chan struct{} // closed when the process has ended
	acted   bool          // it ended by itself, which it does when it has killed the group; once gone is closed
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
	go func() {
		_ = cmd.Wait()
		g.acted = cmd.ProcessState.Success()
		close(g.gone)
	}()
	return g, nil
}

// tell tells the guard when to kill the group unless it is told a later instant before.
func (g *guard) tell(deadline time.Time) {
	if deadline.Sub(g.told).Abs() < time.Millisecond {
		return // as before: it is computed anew from two clocks each time
	}
	g.late = g.hasPassed()
	g.told = deadline
	_ = g.pipe.SetWriteDeadline(time.Now().Add(time.Second))                // a guard that is stopped reads nothing
	_, _ = fmt.Fprintln(g.pipe, int64(clock.Shared()+time.Until(deadline))) // one that is gone is replaced
}

func (g *guard) hasPassed() bool { return !g.told.IsZero() && !time.Now().Before(g.told) }

// mayHaveKilled says that if the group was killed, it was the guard.
func (g *guard) mayHaveKilled() bool {
	if g.late || g.hasPassed() {
		return true
	}
	select {
	case <-g.gone:
		return g.acted
	default:
		return false
	}
}

// release ends the guard, so that it kills nobody, and returns when its descriptors are closed: a lock that is a
// descriptor is free only then.
func (g *guard) release() {
	_ = g.process.Kill()
	<-g.gone
	g.pipe.Close()
}

// guardStage is the guard's own side: GROUP. Standard input is the pipe, with deadlines, as nanoseconds of clock.Shared: it may be read late.
func guardStage(_ *console, args []string) error {
	// Whoever ends everything (a service manager, a terminal) sends these to lockport too, which then ends the guard.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTSTP)
	group, err := guardedGroup(args)
	if err != nil {
		return err
	}
	var in deadlineReader
	for deadline, ok := in.next(time.Time{}); ok; {
		deadline, ok = in.next(deadline)
	}
	killGroup(group)
	return nil
}

// deadlineReader reads the deadlines that come over standard input.
type deadlineReader struct {
	buf [4096]byte
	n   int // bytes that are there of a line whose end is not
}

// next waits until deadline to be told a later one; for ever if it is zero. false: none has come, or none will. What has come by
// then counts, however late this process gets to run: it must not kill the group of a lock that was renewed.
func (r *deadlineReader) next(deadline time.Time) (later time.Time, ok bool) {
	for {
		var input unix.FdSet
		input.Bits[0] = 1
		var limit *unix.Timeval
		if !deadline.IsZero() {
			left := unix.NsecToTimeval(int64(max(time.Until(deadline), 0)))
			limit = &left
		}
		switch _, err := unix.Select(1, &input, nil, nil, limit); {
		case err == unix.EINTR:
			continue
		case err != nil || input.Bits[0] == 0:
			return time.Time{}, false
		}
		n, err := os.Stdin.Read(r.buf[r.n:])
		if err != nil {
			return time.Time{}, false
		}
		r.n += n
		lines := bytes.Split(r.buf[:r.n], []byte("\n"))
		whole, rest := lines[:len(lines)-1], lines[len(lines)-1]
		if len(whole) == 0 {
			continue
		}
		instant, err := strconv.ParseInt(string(whole[len(whole)-1]), 10, 64)
		r.n = copy(r.buf[:], rest)
		return time.Now().Add(time.Duration(instant) - clock.Shared()), err == nil
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
