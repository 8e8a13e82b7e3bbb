//go:build linux || darwin

package main

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockport/lockport/internal/clock"
)

// guard is a small process in its own session. It kills the command's group when lockport dies (its pipe closes), or when lockport is stopped, frozen
// or starved until the lock's validity runs out. If a backend's locks are descriptors, the guard inherits them, so that the lock is not free before
// the group is gone.
type guard struct {
	process  *os.Process
	pipe     *os.File
	deadline time.Time // the last deadline sent
	late     bool      // the one before had passed when it was sent
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
		Args:        []string{"lock-guard", verbGuard, strconv.Itoa(group)},
		Env:         []string{},
		Dir:         "/",
		Stdin:       reads,
		ExtraFiles:  holding,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	ready, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		writes.Close()
		return nil, err
	}
	defer ready.Close()
	g := &guard{process: cmd.Process, pipe: writes}
	if n, _ := ready.Read(make([]byte, 1)); n == 0 { // it had no thread, or a signal ended it before it could ignore that
		g.release()
		return nil, errors.New("it ended at once")
	}
	return g, nil
}

// setDeadline tells the guard to kill the group at deadline, unless a later one arrives before.
func (g *guard) setDeadline(deadline time.Time) {
	if deadline.Sub(g.deadline).Abs() < time.Millisecond {
		return // unchanged: it is computed from two clocks each time
	}
	g.late = g.overdue()
	g.deadline = deadline
	_ = g.pipe.SetWriteDeadline(time.Now().Add(time.Second)) // a stopped guard reads nothing
	_ = binary.Write(g.pipe, binary.NativeEndian, int64(clock.Shared()+time.Until(deadline)))
}

// overdue reports whether the last deadline has passed.
func (g *guard) overdue() bool { return !g.deadline.IsZero() && !time.Now().Before(g.deadline) }

// release ends the guard without a kill, and returns when its descriptors are closed, which frees a lock that is a descriptor.
func (g *guard) release() {
	_ = g.process.Kill()
	_, _ = g.process.Wait()
	g.pipe.Close()
}

// guardVerb is the guard process: GROUP. Standard input is the pipe of deadlines, in nanoseconds of clock.Shared, since the guard may read them late.
func guardVerb(_ *console, args []string) error {
	// A service manager or terminal that ends all processes sends these to lockport too, which then ends the guard.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTSTP)
	group, _ := strconv.Atoi(strings.Join(args, " "))
	if group <= 1 {
		return usagef("%s is internal to lockport", verbGuard)
	}
	_, _ = os.Stdout.Write([]byte{1}) // ready
	var deadline time.Duration
	now := clock.Shared
	for readable(os.Stdin, deadline, now) && binary.Read(os.Stdin, binary.NativeEndian, &deadline) == nil {
		shared, read := clock.Shared(), time.Now() // where Shared is the wall clock, it may be set back
		now = func() time.Duration { return max(clock.Shared(), shared+time.Since(read)) }
	}
	killGroup(group)
	return nil
}

// readable waits until f is readable or deadline, an instant of now, has passed; a zero deadline never does. Input that arrived by then counts, however
// late this process runs: the guard must not kill the group of a renewed lock.
func readable(f *os.File, deadline time.Duration, now func() time.Duration) bool {
	for {
		limit, due := -1, false
		if deadline != 0 { // poll(2) stands still while the machine is suspended
			left := deadline - now()
			due = left <= 0
			limit = int((min(max(left, 0), 250*time.Millisecond) + time.Millisecond - 1) / time.Millisecond)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}, limit)
		if err == unix.EINTR || err == nil && n == 0 && !due {
			continue
		}
		return err == nil && n > 0
	}
}
