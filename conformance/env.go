package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Env is what a case works with: backends, clients, workers and names of its own, and the faults. Methods that can fail end
// the case, and so are called from its own goroutine only, except where they say otherwise.
type Env struct {
	ctx    context.Context // ends at the case's time limit
	r      *runner
	cfg    Config // the runner's, or that of a lane
	prefix string // of the case's names
	ttl    time.Duration
	caps   driver.Capabilities

	mu      sync.Mutex
	err     error  // the first failure
	where   string // the line of the case where that was seen
	names   int
	closers []func() // run when the case has ended, the last one first
	faulty  bool     // a fault was produced that Restore must end
}

// fail records a failure; the first one counts. Any goroutine may call it.
func (e *Env) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err, e.where = err, caseLine()
	}
}

// caseLine is the line of the calling case, such as "cases_loss.go:105"; empty where a goroutine of another file has failed.
func caseLine() string {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if file := filepath.Base(frame.File); strings.HasPrefix(file, "cases_") {
			return file + ":" + strconv.Itoa(frame.Line)
		}
	}
	return ""
}

func (e *Env) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// stopIfFailed ends the case if a goroutine of its has failed.
func (e *Env) stopIfFailed() {
	if e.failure() != nil {
		runtime.Goexit()
	}
}

// failf ends the case with what was seen. A nil error among args reads "none".
func (e *Env) failf(format string, args ...any) {
	for i, arg := range args {
		if arg == nil {
			args[i] = errNone
		}
	}
	e.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}

var errNone = errors.New("none")

// require ends the case with what was seen, unless ok.
func (e *Env) require(ok bool, seen string, args ...any) {
	if !ok {
		e.failf(seen, args...)
	}
}

// notRun ends a case that turns out not to apply.
func (e *Env) notRun(format string, args ...any) {
	e.fail(errNotRun{fmt.Sprintf(format, args...)})
	runtime.Goexit()
}

// needsTTL ends a case about claims that end with their TTL, where they end otherwise.
func (e *Env) needsTTL() {
	if e.caps.Ends != driver.EndsTTL {
		e.notRun("claims end with their %v, not with a TTL", e.caps.Ends)
	}
}

// needsRenewal ends a case about renewals, where claims like lease are not renewed.
func (e *Env) needsRenewal(lease driver.Lease) {
	if lease.Grant().Until.IsZero() {
		e.notRun("claims have no end of their own, so they are not renewed")
	}
}

// check ends the case if err is not nil.
func (e *Env) check(err error, what string, args ...any) {
	if err != nil {
		e.failf("%s: %w", fmt.Sprintf(what, args...), err)
	}
}

// is ends the case if err is none of those wanted, of which nil is one if it is named.
func (e *Env) is(err error, what string, wanted ...error) {
	for _, want := range wanted {
		if errors.Is(err, want) {
			return
		}
	}
	e.failf("%s: %w", what, err)
}

// errOf is the error of a call with two results.
func errOf[T any](_ T, err error) error { return err }

// within waits for done, and ends the case if that is not closed, or sent to, within d.
func (e *Env) within(done <-chan struct{}, d time.Duration, what string, args ...any) {
	select {
	case <-done:
	case <-time.After(d):
		e.failf(what, args...)
	}
}

// eventually polls ok, and ends the case if it is not true within d.
func (e *Env) eventually(d time.Duration, ok func() bool, what string, args ...any) {
	if !poll(e.ctx, d, ok) {
		e.failf("not within %v: %s", d, fmt.Sprintf(what, args...))
	}
}

// poll asks ok again and again until it is true, or d has passed, or ctx has ended.
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

// during calls f again and again, with a pause between, until d has passed.
func (e *Env) during(d, pause time.Duration, f func()) {
	for end := time.Now().Add(d); time.Now().Before(end); e.sleep(pause) {
		f()
	}
}

// sleep lets d pass, for what is about the passing of time itself.
func (e *Env) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-e.ctx.Done():
		e.failf("the case ran out of time")
	}
}

// cleanUp ends all that the case began.
func (e *Env) cleanUp() {
	if e.faulty {
		e.restore()
	}
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

// after has f run when the case has ended.
func (e *Env) after(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closers = append(e.closers, f)
}

// name makes a name that no other case uses. Any goroutine may call it.
func (e *Env) name() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names++
	return e.prefix + strconv.Itoa(e.names)
}

// detached is a context of its own for what must happen although the case's time is over.
func (e *Env) detached(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(e.ctx), d)
}

// sound holds the form of what TryAcquire, Wait and Requeue return against the contract. Any goroutine may call it.
func (e *Env) sound(lease driver.Lease, err error) (driver.Lease, error) {
	switch {
	case err == nil && lease == nil:
		err = driver.ErrUnknown
		e.fail(errors.New("the driver returned neither a lease nor an error"))
	case err != nil && lease != nil:
		e.fail(fmt.Errorf("the driver returned both a lease and an error: %w", err))
	case errors.Is(err, driver.ErrLost):
		e.fail(fmt.Errorf("a claim returned ErrLost, which is for leases: %w", err))
	}
	e.oneClass(err)
	return lease, err
}

// classes are those of a driver's errors.
var classes = []error{driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown}

// class is the class of a driver's error.
func class(err error) error {
	if err == nil {
		return nil
	}
	for _, c := range classes {
		if errors.Is(err, c) {
			return c
		}
	}
	return driver.ErrUnknown
}

// oneClass records a failure if an error matches several classes. Any goroutine may call it.
func (e *Env) oneClass(err error) {
	n := 0
	for _, c := range classes {
		if errors.Is(err, c) {
			n++
		}
	}
	if n > 1 {
		e.fail(fmt.Errorf("P10 errors: an error belongs to exactly one class; this one matches %d: %w", n, err))
	}
}

// certain says that a claim with this error certainly had no effect.
func certain(err error) bool {
	c := class(err)
	return c == driver.ErrUnavailable || c == driver.ErrRefused
}

// randomHex makes n random bytes in hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
