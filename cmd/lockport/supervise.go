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

// hold is a lockport.Lock or a lockport.Set.
type hold interface {
	Err() error
	Valid() bool
	Deadline() (time.Time, bool)
	Context(parent context.Context) (context.Context, context.CancelFunc)
}

// supervisor watches a lock and the command that runs under it.
type supervisor struct {
	*runner
	lock    hold
	child   *child
	guard   *guard
	holding []*os.File              // descriptors that are the lock
	passed  map[syscall.Signal]bool // on to the command, since lockport got them

	lost   bool      // the lock is gone, or the command was ended because it would have been
	killAt time.Time // SIGTERM was sent for the lock's sake, and SIGKILL follows then
	killed bool      // SIGKILL was
}

// supervise runs the command under lock, which is locks, and returns its exit code when it has ended, or its whole group if it was ended for the
// lock's sake. asked says that it ended because lockport was asked to. err says that it could not be started.
func (r *runner) supervise(lock hold, locks []*lockport.Lock) (code int, asked bool, err error) {
	s := &supervisor{runner: r, lock: lock, passed: make(map[syscall.Signal]bool)}
	for _, one := range locks {
		var f *os.File
		if one.As(&f) {
			s.holding = append(s.holding, f)
		}
	}
	if s.child, err = startChild(r.path, r.o.command, environment(r.client.Capabilities().Backend, locks)); err != nil {
		return 0, false, failf(exitCannotStart, "cannot start %s: %v", r.o.command[0], rootCause(err))
	}
	defer takeBackForeground(s.child.group)
	if s.guard, err = startGuard(s.child.group, s.holding); err != nil {
		s.child.open(false)
		s.child.reap()
		return 0, false, failf(exitCannotStart, "cannot start the guard process: %v", rootCause(err))
	}
	notify(r.signals, syscall.SIGTSTP) // the command stops first, or not at all

	s.check(time.Now())
	s.child.open(!s.lost || r.o.ignore)
	s.watch()
	s.endGroup()
	paused := s.guard.mayHaveKilled()
	s.guard.release()
	status := s.child.reap() // after the guard, to which the group's number must not come to mean another group
	return s.code(status, paused), s.askedToEnd(status), nil
}

// watch returns when the command has ended.
func (s *supervisor) watch() {
	held, cancel := s.lock.Context(context.Background())
	defer cancel()
	lost, gone := held.Done(), s.guard.gone
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case sig, running := <-s.child.stops:
			if !running {
				return
			}
			s.stopped(sig)
		case sig := <-s.signals:
			s.pass(sig.(syscall.Signal))
		case <-lost:
			lost = nil
		case <-gone:
			gone = s.replaceGuard()
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
				s.c.say("the lock server did not answer in time; ending the command before another client can acquire %s", s.o.title())
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
		s.c.say("%v; the command continues, because of --on-lost ignore", err)
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

// pass passes on a signal that lockport got.
func (s *supervisor) pass(sig syscall.Signal) {
	s.passed[sig] = true
	s.send(sig)
}

// send signals the command's group.
func (s *supervisor) send(sig syscall.Signal) {
	if err := signalGroup(s.child.group, sig); err != nil {
		s.c.say("cannot send %q to the command: %v", sig, err)
	}
}

// askedToEnd says that lockport passed on a signal that asks programs to end, or that the command died of.
func (s *supervisor) askedToEnd(status syscall.WaitStatus) bool {
	return s.passed[syscall.SIGTERM] || s.passed[syscall.SIGINT] || s.passed[syscall.SIGQUIT] || status.Signaled() && s.passed[status.Signal()]
}

// endGroup ends what the command left running when it ended, if the lock is gone, or with --keep: another machine's turn is next.
func (s *supervisor) endGroup() {
	if err := s.lock.Err(); errors.Is(err, lockport.ErrLost) {
		s.removed(err, time.Now())
	}
	if s.o.keep && s.killAt.IsZero() && groupAlive(s.child.group) {
		killAt := time.Now().Add(s.o.killAfter)
		if deadline, ok := s.lock.Deadline(); ok && deadline.Add(-killSlack(s.o.ttl)).Before(killAt) {
			killAt = deadline.Add(-killSlack(s.o.ttl))
		}
		s.end(killAt)
	}
	for !s.killAt.IsZero() && groupAlive(s.child.group) {
		if !time.Now().Before(s.killAt) {
			killGroup(s.child.group)
			break
		}
		time.Sleep(5 * time.Millisecond) // the kernel announces the end of children only
	}
}

// code settles the exit code. paused says that the guard may have killed the command.
func (s *supervisor) code(status syscall.WaitStatus, paused bool) int {
	if !s.lost && paused && status.Signaled() && status.Signal() == syscall.SIGKILL {
		s.c.say("the command was killed: lockport was paused and could not renew %s in time", s.o.title())
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

// ofLock are the variables of a lock, which a command must not inherit from another.
var ofLock = regexp.MustCompile(`^LOCKPORT_(NAME|OWNER|TOKEN)(_[0-9]+)?=`)

// environment is what the command finds in its environment: what lockport found there, and the lock, set last so that
// nothing inherited wins (see exec.Cmd). Of several locks each has a number, in the order of their names. LOCKPORT_TOKEN is missing where the backend has no tokens: a stale one would be worse than none.
func environment(backend string, locks []*lockport.Lock) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return ofLock.MatchString(e) })
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

// replaceGuard starts another guard if somebody ended the first, and returns what is closed when that one has ended.
func (s *supervisor) replaceGuard() (gone chan struct{}) {
	if s.guard.mayHaveKilled() || !s.lock.Valid() {
		return nil // it did its work
	}
	g, err := startGuard(s.child.group, s.holding)
	if err != nil {
		s.c.say("the guard process is gone and cannot be started again (%v): if lockport is killed now, the command continues", err)
		return nil
	}
	s.c.say("the guard process was killed; another one was started")
	s.guard.release()
	s.guard = g
	return g.gone
}
