//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lockport/lockport"
)

// killSlack is how long before the deadline SIGKILL is sent, so that the group is gone by then: a twentieth of the TTL, at most half a second. On a
// busy machine the sender may run late, and the killed processes may take time to end.
func killSlack(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 10*time.Millisecond), 500*time.Millisecond)
}

// hold is a lockport.Lock or a lockport.Set.
type hold interface {
	Err() error
	Deadline() (time.Time, bool)
	Context(parent context.Context) (context.Context, context.CancelFunc)
}

// supervisor watches a lock and the command that runs under it.
type supervisor struct {
	*runner
	lock      hold
	child     *child
	guard     *guard
	forwarded map[syscall.Signal]bool // signals forwarded to the command

	validity time.Duration // of a lock just renewed; shorter than the TTL if ZooKeeper grants shorter sessions
	lost     bool          // the lock is gone, or the command was ended before it would be
	killAt   time.Time     // not zero: SIGTERM was sent because of the lock, and SIGKILL follows at this time
	killed   bool          // SIGKILL was sent
}

// supervise runs the command under lock, which consists of locks. It returns the exit code when the command has ended, or its whole group if it was
// ended because of the lock. asked: it ended because lockport was asked to end. err: it could not be started.
func (r *runner) supervise(lock hold, locks []*lockport.Lock) (code int, asked bool, err error) {
	r.began, r.silent = time.Now(), false
	s := &supervisor{runner: r, lock: lock, forwarded: make(map[syscall.Signal]bool)}
	var holding []*os.File // descriptors that hold the lock
	for _, one := range locks {
		var f *os.File
		if one.As(&f) {
			holding = append(holding, f)
		}
	}
	if s.child, err = startChild(r.path, r.o.command, environment(r.client.Capabilities().Backend, locks)); err != nil {
		return 0, false, failf(exitCannotStart, "cannot start %s: %v", r.o.command[0], err)
	}
	defer takeBackForeground(s.child.group)
	if s.guard, err = startGuard(s.child.group, holding); err != nil {
		s.child.gate.Close()
		s.child.reap()
		return 0, false, failf(exitCannotStart, "cannot start the guard process: %v", err)
	}
	notify(r.signals, syscall.SIGTSTP) // the command stops first, or neither stops

	s.check(time.Now())
	if !s.lost || r.o.ignore {
		_, _ = s.child.gate.Write([]byte{1}) // if no process waits there any more, its end is reported
	}
	s.child.gate.Close()
	s.watch()
	paused := s.guard.late || s.guard.overdue()
	s.endGroup()
	s.guard.release()
	status := s.child.reap() // after the guard, which must not kill another group with the same id
	r.key = status.Signaled() && status.Signal() == syscall.SIGINT && lentTo(s.child.group) && !s.forwarded[syscall.SIGINT]
	return s.code(status, paused), s.askedToEnd(status), nil
}

// watch returns when the command has ended.
func (s *supervisor) watch() {
	held, cancel := s.lock.Context(context.Background())
	defer cancel()
	lost := held.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case sig, running := <-s.child.stops:
			if !running {
				return
			}
			s.handleStop(sig)
		case sig := <-s.signals:
			s.forward(sig.(syscall.Signal))
		case <-lost:
			lost = nil
		case <-timer.C:
		}
		timer.Reset(s.check(time.Now()))
	}
}

// check takes the actions that are due because of the lock, and returns when to call it again.
func (s *supervisor) check(now time.Time) time.Duration {
	s.handleLoss(now)
	again := s.o.ttl / 8
	if !s.o.ignore && s.killAt.IsZero() {
		if deadline, ok := s.lock.Deadline(); ok {
			slack := killSlack(s.o.ttl)
			s.guard.setDeadline(deadline.Add(-slack / 2)) // later than our own SIGKILL: the guard acts if we cannot
			killAt := deadline.Add(-slack)
			s.validity = max(s.validity, deadline.Sub(now))
			termAt := killAt.Add(-min(s.o.killAfter, s.validity/2))
			if !now.Before(termAt) {
				s.lost, s.silent = true, true
				s.terminate(killAt)
				s.c.say("no renewal was confirmed in time; ending the command before another client can acquire %s", quoted(s.o.names))
			} else {
				again = min(again, termAt.Sub(now))
			}
		}
	}
	if !s.killAt.IsZero() && !s.killed {
		if now.Before(s.killAt) {
			again = min(again, s.killAt.Sub(now))
		} else {
			s.send(syscall.SIGKILL)
			s.killed = true
		}
	}
	return again
}

// handleLoss handles the loss of the lock, if that is known, once.
func (s *supervisor) handleLoss(now time.Time) {
	err, then := s.lock.Err(), "ending the command"
	silence := errors.Is(err, lockport.ErrSilence)
	switch {
	case !errors.Is(err, lockport.ErrLost), s.lost && s.killAt.IsZero():
		return
	case !s.killAt.IsZero():
		if silence { // no time is left for SIGTERM
			s.killAt = now
		}
		return
	case s.o.ignore:
		then = "the command continues, because of --on-lost ignore"
	case silence:
		then = "killing the command"
		s.terminate(now)
	default:
		s.terminate(now.Add(s.o.killAfter))
	}
	s.lost = true
	s.c.say("%v; %s", err, then)
}

// terminate asks the command's group to end by killAt. A stopped process must be continued to receive SIGTERM.
func (s *supervisor) terminate(killAt time.Time) {
	s.killAt = killAt
	s.send(syscall.SIGTERM)
	s.send(syscall.SIGCONT)
}

func (s *supervisor) forward(sig syscall.Signal) {
	s.forwarded[sig] = true
	s.send(sig)
}

func (s *supervisor) send(sig syscall.Signal) {
	if err := signalGroup(s.child.group, sig); err != nil {
		s.c.say("cannot send %q to the command: %v", sig, err)
	}
}

// askedToEnd reports whether lockport forwarded a signal that asks programs to end, or one that the command died of. A terminal sends the signals of
// its keys to the command alone, which may handle them and exit as a shell reports them.
func (s *supervisor) askedToEnd(status syscall.WaitStatus) bool {
	ended := func(sig syscall.Signal) bool {
		return status.Signaled() && status.Signal() == sig || status.ExitStatus() == signalCode(sig)
	}
	key := (ended(syscall.SIGINT) || ended(syscall.SIGQUIT)) && lentTo(s.child.group)
	return key || s.forwarded[syscall.SIGTERM] || s.forwarded[syscall.SIGINT] || s.forwarded[syscall.SIGQUIT] || status.Signaled() && s.forwarded[status.Signal()]
}

// endGroup ends the processes that the command left running, if the lock is gone, or with --keep: another machine may run the command next. SIGKILL
// follows even if none was seen: groupAlive misses a process that starts another and ends meanwhile.
func (s *supervisor) endGroup() {
	s.handleLoss(time.Now())
	if s.o.keep && s.killAt.IsZero() {
		killAt := time.Now().Add(s.o.killAfter)
		if deadline, ok := s.lock.Deadline(); ok && deadline.Add(-killSlack(s.o.ttl)).Before(killAt) {
			killAt = deadline.Add(-killSlack(s.o.ttl))
		}
		s.terminate(killAt)
	}
	for time.Now().Before(s.killAt) && groupAlive(s.child.group) {
		time.Sleep(5 * time.Millisecond) // the kernel reports the end of children only
	}
	if !s.killAt.IsZero() {
		killGroup(s.child.group)
	}
}

// code decides the exit code. paused: the guard may have killed the command.
func (s *supervisor) code(status syscall.WaitStatus, paused bool) int {
	if !s.lost && paused && status.Signaled() && status.Signal() == syscall.SIGKILL {
		s.c.say("the command was killed: lockport was paused and could not renew %s in time", quoted(s.o.names))
		s.lost = true
	}
	switch {
	case s.lost:
		return exitLost
	case status.Signaled():
		return signalCode(status.Signal())
	}
	return status.ExitStatus()
}

// lockVariable matches the variables of a lock, which a command must not inherit from another lock.
var lockVariable = regexp.MustCompile(`^LOCKPORT_(NAME|OWNER|TOKEN)(_[0-9]+)?=`)

// environment is the command's environment: that of lockport, then the lock's variables, which override inherited ones (see exec.Cmd). With several
// locks, each has a number, in the order of their names. If the backend has no tokens, LOCKPORT_TOKEN is absent: a stale one would be worse than
// none.
func environment(backend string, locks []*lockport.Lock) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return lockVariable.MatchString(e) })
	env = append(env, "LOCKPORT_BACKEND="+backend)
	for i, one := range locks {
		number := ""
		if len(locks) > 1 {
			number = "_" + strconv.Itoa(i+1)
		}
		env = append(env, "LOCKPORT_NAME"+number+"="+one.Name(), "LOCKPORT_OWNER"+number+"="+one.Owner())
		if token, ok := one.Token(); ok {
			env = append(env, "LOCKPORT_TOKEN"+number+"="+strconv.FormatUint(uint64(token), 10))
		}
	}
	return env
}
