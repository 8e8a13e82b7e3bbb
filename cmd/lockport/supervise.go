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

// killSlack is how long before the deadline SIGKILL is sent under a lock with this TTL, so that its victims are gone by then: a twentieth of the TTL, at most half a
// second. On a busy machine it takes its time until who sends the signal runs, and until those who get it have ended.
func killSlack(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 10*time.Millisecond), 500*time.Millisecond)
}

// supervisor watches a lock and the command that runs under it.
type supervisor struct {
	c         *console
	o         runOptions
	lock      *lockport.Set
	child     *child
	guard     *guard
	guardGone <-chan struct{}
	holding   []*os.File // descriptors that are the lock
	signals   chan os.Signal

	lost   bool      // the lock is gone, or the command was ended because it would have been
	killAt time.Time // SIGTERM was sent for the lock's sake, and SIGKILL follows then
	killed bool      // SIGKILL was
}

// supervise runs the command and returns its exit code when it has ended, or its whole group if it was ended for the
// lock's sake. err says that it could not be started.
func supervise(c *console, o runOptions, path, backend string, lock *lockport.Set, signals chan os.Signal) (int, error) {
	s := &supervisor{c: c, o: o, lock: lock, signals: signals}
	for _, one := range lock.Locks() {
		var f *os.File
		if one.As(&f) {
			s.holding = append(s.holding, f)
		}
	}
	var err error
	if s.child, err = startChild(path, o.command, environment(backend, lock)); err != nil {
		return 0, failf(exitCannotStart, "cannot start %s: %v", o.command[0], rootCause(err))
	}
	defer takeBackForeground(s.child.group)
	defer reap(s.child.group) // after the guard, to which its number must not come to mean another group
	if s.guard, err = startGuard(s.child.group, s.holding); err != nil {
		s.child.open(false)
		for range s.child.events { // it ends at the closed gate
		}
		return 0, failf(exitCannotStart, "cannot start the guard process: %v", rootCause(err))
	}
	s.guardGone = s.guard.gone
	defer func() { s.guard.release() }()
	catchStop(signals)

	s.check(time.Now())
	s.child.open(!s.lost || o.ignore)
	return s.run(), nil
}

// run watches until the command has ended.
func (s *supervisor) run() int {
	held, cancel := s.lock.Context(context.Background())
	defer cancel()
	lost := held.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case status := <-s.child.events:
			if !status.Stopped() {
				return s.ended(status)
			}
			s.stopped(status.StopSignal())
		case sig := <-s.signals:
			s.send(sig.(syscall.Signal))
		case <-lost:
			lost = nil
		case <-s.guardGone:
			s.replaceGuard()
		case <-timer.C:
		}
		timer.Reset(s.check(time.Now()))
	}
}

// check does what is due for the lock's sake, and returns in how long to call it again.
func (s *supervisor) check(now time.Time) time.Duration {
	if err := s.lock.Err(); errors.Is(err, lockport.ErrLost) {
		s.removed(err, now)
	}
	again := s.o.ttl / 8
	if !s.o.ignore && s.killAt.IsZero() {
		if deadline, ok := s.lock.Deadline(); ok {
			slack := killSlack(s.o.ttl)
			s.guard.tell(deadline.Add(-slack / 2)) // later than we would: it is for when we cannot
			killAt := deadline.Add(-slack)
			termAt := killAt.Add(-s.o.killAfter)
			if !now.Before(termAt) {
				s.c.say("the lock server was not heard from in time; ending the command before somebody else can have %s", s.o.title())
				s.lost = true
				s.end(killAt)
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

// removed deals with a lock that is known to be gone, once.
func (s *supervisor) removed(err error, now time.Time) {
	silence := errors.Is(err, lockport.ErrSilence)
	switch {
	case !s.killAt.IsZero():
		if silence { // no time is left for manners
			s.killAt = now
		}
		return
	case s.lost:
		return
	case s.o.ignore:
		s.c.say("%v; the command goes on, as --on-lost ignore wants", err)
	case silence:
		s.c.say("%v; killing the command", err)
		s.end(now)
	default:
		s.c.say("%v; ending the command", err)
		s.end(now.Add(s.o.killAfter))
	}
	s.lost = true
}

// end asks the command's group to end until killAt. A stopped process must go on to hear it.
func (s *supervisor) end(killAt time.Time) {
	s.killAt = killAt
	s.send(syscall.SIGTERM)
	s.send(syscall.SIGCONT)
}

// send signals the command's group.
func (s *supervisor) send(sig syscall.Signal) {
	if err := signalGroup(s.child.group, sig); err != nil {
		s.c.say("cannot send %q to the command: %v", sig, err)
	}
}

// ended settles the exit code when the command has ended. What it left running goes on, unless the lock is gone.
func (s *supervisor) ended(status syscall.WaitStatus) int {
	if err := s.lock.Err(); errors.Is(err, lockport.ErrLost) {
		s.removed(err, time.Now())
	}
	for !s.killAt.IsZero() && groupAlive(s.child.group) {
		if !time.Now().Before(s.killAt) {
			killGroup(s.child.group)
			break
		}
		time.Sleep(5 * time.Millisecond) // the kernel announces the end of children only
	}
	if !s.lost && s.guardKilled(status) {
		s.c.say("the command was killed: lockport did not run, and could not renew %s in time", s.o.title())
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

// guardKilled says whether it was the guard that killed the command.
func (s *supervisor) guardKilled(status syscall.WaitStatus) bool {
	return status.Signaled() && status.Signal() == syscall.SIGKILL && s.guard.mayHaveKilled()
}

// ofLock are the variables of a lock, which a command must not inherit from another.
var ofLock = regexp.MustCompile(`^LOCKPORT_(NAME|OWNER|TOKEN)(_[0-9]+)?=`)

// environment is what the command finds in its environment: what lockport found there, and the lock, set last so that
// nothing inherited wins (see exec.Cmd). Of several locks each has a number, in the order of their names. LOCKPORT_TOKEN is missing where the backend has no tokens: a stale one would be worse than none.
func environment(backend string, lock *lockport.Set) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return ofLock.MatchString(e) })
	env = append(env, "LOCKPORT_BACKEND="+backend)
	locks := lock.Locks()
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

// replaceGuard starts another guard if somebody ended the first.
func (s *supervisor) replaceGuard() {
	s.guardGone = nil
	if s.guard.acted || !s.lock.Valid() {
		return // it did its work
	}
	g, err := startGuard(s.child.group, s.holding)
	if err != nil {
		s.c.say("the guard process is gone and cannot be started again (%v): if lockport is killed now, the command goes on", err)
		return
	}
	s.c.say("the guard process was killed; another one was started")
	s.guard.release()
	s.guard, s.guardGone = g, g.gone
}
