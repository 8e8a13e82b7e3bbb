package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// Env gives a case its backends, clients, workers, names and faults. Methods that can fail end the case, so call them from
// the case's own goroutine only, unless they say otherwise.
type Env struct {
	*runner
	ctx    context.Context // ends at the case's time limit
	prefix string          // of the case's names: runs that share a server must not collide

	err    atomic.Pointer[error] // the first failure
	names  atomic.Int64
	faulty bool // Restore must end a fault

	mu      sync.Mutex
	closers []func()  // run when the case has ended, last one first
	expires time.Time // when the first of the case's claims expires, if nobody renews it; zero: none was made
}

// claims notes that a claim with this TTL is about to be made. Any goroutine may call it.
func (e *Env) claims(ttl time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if end := time.Now().Add(ttl); e.expires.IsZero() || end.Before(e.expires) {
		e.expires = end
	}
}

// expired reports whether a claim of the case may have expired.
func (e *Env) expired() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.expires.IsZero() && time.Now().After(e.expires)
}

// fail records a failure. Only the first one counts. Any goroutine may call it.
func (e *Env) fail(err error) {
	if e.expired() {
		err = errExpired{err}
	}
	e.err.CompareAndSwap(nil, &err)
}

// catch makes a panic the case's failure. Defer it.
func (e *Env) catch() {
	if p := recover(); p != nil {
		e.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
}

func (e *Env) failure() error {
	if err := e.err.Load(); err != nil {
		return *err
	}
	return nil
}

// stopIfFailed ends the case if one of its goroutines has failed.
func (e *Env) stopIfFailed() {
	if e.failure() != nil {
		runtime.Goexit()
	}
}

// failf ends the case with what was seen. A nil error among args reads "no error".
func (e *Env) failf(format string, args ...any) {
	for i, arg := range args {
		if arg == nil {
			args[i] = errNone
		}
	}
	e.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}

// These are parts of failures that the expiry of the case's claims may explain: a call that had to fail did not, a claim on a held name was granted,
// or Inspect does not show a claim.
var errNone, errGranted, errMissing = errors.New("no error"), errors.New("another claim was granted"), errors.New("a claim is missing")

// require ends the case with what was seen, unless ok.
func (e *Env) require(ok bool, seen string, args ...any) {
	if !ok {
		e.failf(seen, args...)
	}
}

// applies ends the case as not run, with the reason, unless ok.
func (e *Env) applies(ok bool, reason string, args ...any) {
	if !ok {
		e.notRun(reason, args...)
	}
}

// notRun ends a case that does not apply.
func (e *Env) notRun(format string, args ...any) {
	e.fail(errNotRun{fmt.Sprintf(format, args...)})
	runtime.Goexit()
}

// needsTTL ends the case as not run unless claims end with their TTL.
func (e *Env) needsTTL() {
	e.applies(e.caps.Ends == driver.EndsTTL, "claims end with their %v, not after a TTL", e.caps.Ends)
}

// needsRenewal ends the case as not run if claims like lease are not renewed.
func (e *Env) needsRenewal(lease driver.Lease) {
	e.applies(!lease.Grant().Until.IsZero(), "claims do not expire, so they are not renewed")
}

// check ends the case if err is not nil.
func (e *Env) check(err error, what string, args ...any) {
	if err != nil {
		e.failf("%s: %w", fmt.Sprintf(what, args...), err)
	}
}

// is ends the case unless err matches one of those wanted.
func (e *Env) is(err error, what string, wanted ...error) {
	e.require(matches(err, wanted...), "%s: %w", what, err)
}

// matches reports whether err matches one of those wanted. A nil among them matches a nil err.
func matches(err error, wanted ...error) bool {
	return slices.ContainsFunc(wanted, func(want error) bool { return errors.Is(err, want) })
}

// errOf returns the error of a call with two results.
func errOf[T any](_ T, err error) error { return err }

// within waits until done is closed or sent to, and ends the case after d.
func (e *Env) within(done <-chan struct{}, d time.Duration, what string, args ...any) {
	select {
	case <-done:
	case <-time.After(d):
		e.failf(what, args...)
	}
}

// eventually polls ok until it returns true, and ends the case after d.
func (e *Env) eventually(d time.Duration, ok func() bool, what string, args ...any) {
	if !poll(e.ctx, d, ok) {
		e.failf("this did not happen within %v: %s", d, fmt.Sprintf(what, args...))
	}
}

// poll calls ok until it returns true or d has passed. When ctx ends, it calls ok once more.
func poll(ctx context.Context, d time.Duration, ok func() bool) bool {
	end := time.Now().Add(d)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ok()
		}
	}
}

// during calls f ten times in each TTL, until d has passed.
func (e *Env) during(d time.Duration, f func()) {
	for end := time.Now().Add(d); time.Now().Before(end); e.sleep(e.ttl / 10) {
		f()
	}
}

// sleep waits for d. Only rules about time itself need it.
func (e *Env) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-e.ctx.Done():
		e.failf("the case ran out of time")
	}
}

// cleanUp ends everything that the case started.
func (e *Env) cleanUp() {
	e.restore()
	for {
		e.mu.Lock()
		n := len(e.closers)
		if n == 0 {
			e.mu.Unlock()
			return
		}
		f := e.closers[n-1]
		e.closers = e.closers[:n-1]
		e.mu.Unlock()
		f()
	}
}

// after runs f when the case has ended.
func (e *Env) after(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closers = append(e.closers, f)
}

// name returns a name that no other case uses. Any goroutine may call it.
func (e *Env) name() string { return e.prefix + strconv.FormatInt(e.names.Add(1), 10) }

// undo runs f when the case has ended, with a context that does not end with the case's time.
func (e *Env) undo(f func(ctx context.Context)) {
	e.after(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), callTime)
		defer cancel()
		f(ctx)
	})
}

// sound checks the form of what TryAcquire, Wait and Requeue return. Any goroutine may call it.
func (e *Env) sound(lease driver.Lease, err error) (driver.Lease, error) {
	switch {
	case err == nil && lease == nil:
		err = driver.ErrUnknown
		e.fail(errors.New("the driver returned neither a lease nor an error"))
	case err != nil && lease != nil:
		e.fail(fmt.Errorf("the driver returned both a lease and an error: %w", err))
	case errors.Is(err, driver.ErrLost):
		e.fail(fmt.Errorf("a claim returned ErrLost, which only a lease may return: %w", err))
	}
	e.oneClass(err)
	return lease, err
}

// classes are the error classes of drivers.
var classes = []error{driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown}

// matched returns the classes that err matches.
func matched(err error) []error {
	return slices.DeleteFunc(slices.Clone(classes), func(c error) bool { return !errors.Is(err, c) })
}

// class returns the class of a driver's error.
func class(err error) error {
	if err == nil {
		return nil
	}
	return append(matched(err), driver.ErrUnknown)[0]
}

// oneClass records a failure if err matches several classes. Any goroutine may call it.
func (e *Env) oneClass(err error) {
	if n := len(matched(err)); n > 1 {
		e.fail(fmt.Errorf("P10 errors: an error must match exactly one class; this one matches %d: %w", n, err))
	}
}

// noPassword checks that err does not show the password of the target URL, if it has one.
func (e *Env) noPassword(err error) {
	u, bad := url.Parse(e.cfg.Target)
	if bad != nil || u.User == nil || err == nil {
		return
	}
	password, _ := u.User.Password()
	e.require(password == "" || !strings.Contains(err.Error(), password),
		"an error shows the password: %s", strings.ReplaceAll(err.Error(), password, "PASSWORD"))
}

// certain reports whether a claim that returned err certainly had no effect.
func certain(err error) bool {
	c := class(err)
	return c == driver.ErrUnavailable || c == driver.ErrRefused
}

// randomHex returns n random bytes in hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
