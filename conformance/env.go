package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
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
	err     error // the first failure
	names   int
	closers []func() // run when the case has ended, the last one first
	faulty  bool     // a fault was produced that Restore must end
}

func newEnv(ctx context.Context, r *runner, cfg Config, prefix string) *Env {
	return &Env{ctx: ctx, r: r, cfg: cfg, prefix: prefix, ttl: r.ttl, caps: r.caps}
}

// fail records a failure; the first one counts. Any goroutine may call it.
func (e *Env) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

func (e *Env) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// failf ends the case with what was seen.
func (e *Env) failf(format string, args ...any) {
	e.fail(fmt.Errorf(format, args...))
	runtime.Goexit()
}

// notRun ends a case that turns out not to apply.
func (e *Env) notRun(format string, args ...any) {
	e.fail(errNotRun{fmt.Sprintf(format, args...)})
	runtime.Goexit()
}

// check ends the case if err is not nil.
func (e *Env) check(err error, what string, args ...any) {
	if err != nil {
		e.failf("%s: %w", fmt.Sprintf(what, args...), err)
	}
}

// must ends the case with err, if that is not nil.
func (e *Env) must(err error) {
	if err != nil {
		e.failf("%w", err)
	}
}

// is ends the case if err is not the error wanted.
func (e *Env) is(err, wanted error, what string) {
	if !errors.Is(err, wanted) {
		e.failf("%s: %w", what, orNone(err))
	}
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

// name makes a name that no other case uses.
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

// open opens a backend at target that is closed when the case has ended.
func (e *Env) open(target string) *opened {
	b, err := e.cfg.Open(e.ctx, target)
	e.check(err, "Config.Open")
	o := &opened{Backend: b}
	e.after(func() { _ = o.Close() })
	return o
}

// opened is a backend that a case can close early, and that says whether a claim was refused.
type opened struct {
	driver.Backend
	once    sync.Once
	refused atomic.Bool // a claim was, because somebody else has the name
}

// Unwrap implements driver.Unwrapper.
func (o *opened) Unwrap() driver.Backend { return o.Backend }

// TryAcquire implements driver.Backend.
func (o *opened) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	lease, err := o.Backend.TryAcquire(ctx, req)
	if errors.Is(err, driver.ErrHeld) {
		o.refused.Store(true)
	}
	return lease, err
}

// Close implements driver.Backend.
func (o *opened) Close() (err error) {
	o.once.Do(func() { err = o.Backend.Close() })
	return err
}

// client makes a client of its own of the backend under test. Its TTL is the case's, and it is closed when the case has ended.
func (e *Env) client(opts ...lockport.Option) *lockport.Client {
	return e.clientOf(e.open(e.cfg.Target), opts...)
}

func (e *Env) clientOf(b driver.Backend, opts ...lockport.Option) *lockport.Client {
	opts = append([]lockport.Option{lockport.TTL(e.ttl), lockport.Logger(slog.New(slog.DiscardHandler)),
		lockport.Label("conformance")}, opts...)
	c, err := lockport.New(b, opts...)
	e.check(err, "lockport.New")
	e.after(func() { _ = c.Close() })
	return c
}

// randomHex makes n random bytes in hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// newPartyName makes what OwnerClient returns for the claims of one backend.
func newPartyName() string {
	host, err := os.Hostname()
	if err != nil || len(host) > 64 {
		host = "host"
	}
	return host + "/" + strconv.Itoa(os.Getpid()) + "/conformance/" + randomHex(4)
}

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

var classes = []error{driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown}

// oneClass says what is wrong with an error that matches several classes.
func oneClass(err error) error {
	n := 0
	for _, c := range classes {
		if errors.Is(err, c) {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("P10 errors: an error belongs to exactly one class; this one matches %d: %w", n, err)
	}
	return nil
}

// stopIfFailed ends the case if a goroutine of its has failed.
func (e *Env) stopIfFailed() {
	if e.failure() != nil {
		runtime.Goexit()
	}
}
