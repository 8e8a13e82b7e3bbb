//go:build linux || darwin

package main

import (
	"encoding/binary"
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
	gone    chan struct{} // closed when the process has ended
	told    time.Time     // the last deadline that the guard was told
	late    bool          // the one before had passed by then
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
		close(g.gone)
	}()
	return g, nil
}

// tell tells the guard when to kill the group unless it is told a later instant before.
func (g *guard) tell(deadline time.Time) {
	if deadline.Sub(g.told).Abs() < time.Millisecond {
		return // as before: it is computed anew from two clocks each time
	}
	g.late = g.overdue()
	g.told = deadline
	_ = g.pipe.SetWriteDeadline(time.Now().Add(time.Second))                                  // a guard that is stopped reads nothing
	_ = binary.Write(g.pipe, binary.NativeEndian, int64(clock.Shared()+time.Until(deadline))) // one that is gone is replaced
}

// overdue says that the guard was not told another deadline in time.
func (g *guard) overdue() bool { return !g.told.IsZero() && !time.Now().Before(g.told) }

// mayHaveKilled says that if the group was killed, it was the guard.
func (g *guard) mayHaveKilled() bool { return g.late || g.overdue() }

// release ends the guard, so that it kills nobody, and returns when its descriptors are closed: a lock that is a
// descriptor is free only then.
func (g *guard) release() {
	_ = g.process.Kill()
	<-g.gone
	g.pipe.Close()
}

// guardStage is the guard's own side: GROUP. Standard input is the pipe, with deadlines, as nanoseconds of clock.Shared: it may be read late.
func guardStage(_ *console, args []string) error {
	// A service manager or a terminal that ends everything sends these to lockport too, which then ends the guard.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTSTP)
	group := 0
	if len(args) == 1 {
		group, _ = strconv.Atoi(args[0])
	}
	if group <= 1 {
		return usagef("%s is internal to lockport", stageGuard)
	}
	var instant int64
	var deadline time.Time
	for toldBy(deadline) && binary.Read(os.Stdin, binary.NativeEndian, &instant) == nil {
		deadline = time.Now().Add(time.Duration(instant) - clock.Shared())
	}
	killGroup(group)
	return nil
}

// toldBy waits for something to read, until deadline; for ever if that is zero. What has come by then counts, however late this process gets to run: it
// must not kill the group of a lock that was renewed.
func toldBy(deadline time.Time) bool {
	for {
		limit := -1
		if !deadline.IsZero() {
			limit = int((max(time.Until(deadline), 0) + time.Millisecond - 1) / time.Millisecond)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, limit)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}
