package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
)

// outside runs f in a goroutine that belongs to no case: what a fault starts, such as a server, is no leak of the backend.
func outside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(context.Background())
		f()
	}()
	<-done
}

// produce calls the function name of Faults. If it cannot produce the fault, the case is not run.
func produce[T any](e *Env, name string, f func() (T, error)) (result T) {
	e.faulty = e.cfg.Faults.Restore != nil
	var err error
	outside(func() { result, err = f() })
	e.applies(!errors.Is(err, errors.ErrUnsupported), "Faults.%s: %v", name, err)
	e.check(err, "Faults.%s", name)
	return result
}

// inject is produce for a function that returns only an error.
func (e *Env) inject(name string, f func(context.Context) error) {
	produce(e, name, func() (struct{}, error) { return struct{}{}, f(e.ctx) })
}

// orNoFault ends the message of a failure that may not be the driver's.
const orNoFault = "or the fault had no effect: is Target behind the proxy?"

func (e *Env) sever()  { e.inject("Sever", e.cfg.Faults.Sever) }
func (e *Env) freeze() { e.inject("Freeze", e.cfg.Faults.Freeze) }
func (e *Env) cut()    { e.inject("Cut", e.cfg.Faults.Cut) }
func (e *Env) delay(d time.Duration) {
	e.inject("Delay", func(ctx context.Context) error { return e.cfg.Faults.Delay(ctx, d) })
}
func (e *Env) remove(name string) {
	e.inject("Remove", func(ctx context.Context) error { return e.cfg.Faults.Remove(ctx, name) })
}
func (e *Env) restart(keepData bool) {
	e.inject("Restart", func(ctx context.Context) error { return e.cfg.Faults.Restart(ctx, keepData) })
}
func (e *Env) restore() {
	if e.faulty {
		outside(e.cfg.Faults.Restore)
	}
}

// overwrite makes a foreign client the holder of name until the case has ended.
func (e *Env) overwrite(name string) {
	e.inject("Overwrite", func(ctx context.Context) error { return e.cfg.Faults.Overwrite(ctx, name) })
	e.undo(func(ctx context.Context) { outside(func() { _ = e.cfg.Faults.Remove(ctx, name) }) })
}

// replyLost drops the reply to f's request. If the fault finds no such request, nothing was tested, and the case is not run.
func (e *Env) replyLost(op Op, f func()) {
	lost := produce(e, "DropReply", func() (<-chan struct{}, error) { return e.cfg.Faults.DropReply(e.ctx, op) })
	f()
	select {
	case <-lost:
	case <-time.After(max(soon, e.ttl)):
		e.notRun("Faults.DropReply found no request of the kind %v", op)
	}
}

// cutAfter cuts the connection after n requests of f, to which it passes the fault's channel. It reports whether f made so many.
// Afterwards the connection works again.
func (e *Env) cutAfter(n int, f func(cut <-chan struct{})) bool {
	cut := produce(e, "CutAfter", func() (<-chan struct{}, error) { return e.cfg.Faults.CutAfter(e.ctx, n) })
	f(cut)
	happened := true
	select {
	case <-cut:
	case <-time.After(200 * time.Millisecond): // the fault may report it a moment after the call fails
		happened = false
	}
	e.restore()
	e.applies(happened || n > 1, "Faults.CutAfter cut no connection")
	return happened
}

// requests counts the requests so far. Any goroutine may call it.
func (e *Env) requests() (n int64) {
	var err error
	outside(func() { n, err = e.cfg.Faults.Requests(e.ctx) })
	if err != nil {
		e.fail(errNotRun{"Faults.Requests: " + err.Error()})
	}
	return n
}

// conns counts the connections at the server; 0 if Faults cannot.
func (e *Env) conns() (int, error) {
	if f := e.cfg.Faults.Conns; f != nil {
		return f(context.WithoutCancel(e.ctx))
	}
	return 0, nil
}

// leftovers polls until the server keeps nothing of the case, and ends the case if that takes too long.
func (e *Env) leftovers(why string) {
	e.check(e.kept(soon), "%s, so the server must keep nothing", why)
}

// kept waits up to d until the server keeps nothing of the case, and returns what it still keeps as an error.
func (e *Env) kept(d time.Duration) (kept error) {
	f := e.cfg.Faults.Leftovers
	if f == nil {
		return nil // optional
	}
	ctx := context.WithoutCancel(e.ctx) // e.ctx may have ended
	poll(ctx, d, func() bool {
		var left []string
		outside(func() { left, kept = f(ctx, e.prefix) })
		if kept != nil {
			kept = fmt.Errorf("Faults.Leftovers: %w", kept)
		} else if len(left) > 0 {
			kept = fmt.Errorf("after %v it still keeps: %s", d, strings.Join(left, ", "))
		}
		return kept == nil
	})
	return kept
}

// leakGrace is how long goroutines, keys and connections of a case may outlast it.
const leakGrace = 4 * time.Second

// leaks checks that a case that passed left nothing behind. conns is the number of connections before it.
func (e *Env) leaks(c Case, conns int) error {
	ctx := context.WithoutCancel(e.ctx)
	<-time.After(10 * time.Millisecond) // most goroutines end by then; a look at all stacks costs about as much
	if err := noGoroutines(ctx, e.prefix, e.grace); err != nil {
		return err
	}
	// A claim whose backend was closed ends as if its process had died.
	if err := e.kept(e.ttl + e.grace); err != nil {
		return fmt.Errorf("P8 no leaks: when all is closed, the server must keep nothing for longer than the TTL; %w", err)
	}
	var now int
	var err error
	if (c.exclusive() || c.faulty()) && !poll(ctx, e.grace, func() bool { now, err = e.conns(); return err == nil && now <= conns }) {
		return errors.Join(err, fmt.Errorf("P8 no leaks: when all is closed, no connection may be left; there were %d before the case, now %d", conns, now))
	}
	return nil
}
