package conformance

import (
	"context"
	"errors"
	"runtime/pprof"
	"time"
)

// The faults as a case produces them: a fault that says it cannot be produced ends the case as not run, and Restore is called
// at the end.

func (e *Env) faultErr(name Need, err error) {
	if errors.Is(err, ErrNoFault) || errors.Is(err, errors.ErrUnsupported) {
		e.notRun("Faults.%s: %v", name, err)
	}
	e.check(err, "Faults.%s", name)
}

// outside runs f in a goroutine that belongs to no case: what a fault starts, such as a server, is not the backend's leak.
func outside[T any](f func() (T, error)) (v T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(context.Background())
		v, err = f()
	}()
	<-done
	return v, err
}

// produce produces a fault by f, which need only say whether it could.
func (e *Env) produce(name Need, f func(context.Context) error) {
	_, err := outside(func() (struct{}, error) { return struct{}{}, f(e.ctx) })
	e.faultErr(name, err)
}

func (e *Env) sever() {
	e.faulty = true
	e.produce(NeedSever, e.cfg.Faults.Sever)
}

func (e *Env) freeze() {
	e.faulty = true
	e.produce(NeedFreeze, e.cfg.Faults.Freeze)
}

func (e *Env) delay(d time.Duration) {
	e.faulty = true
	e.produce(NeedDelay, func(ctx context.Context) error { return e.cfg.Faults.Delay(ctx, d) })
}

func (e *Env) restore() {
	_, _ = outside(func() (struct{}, error) { e.cfg.Faults.Restore(); return struct{}{}, nil })
}

func (e *Env) cut() { e.produce(NeedCut, e.cfg.Faults.Cut) }

func (e *Env) dropReply(op Op) <-chan struct{} {
	e.faulty = true
	done, err := outside(func() (<-chan struct{}, error) { return e.cfg.Faults.DropReply(e.ctx, op) })
	e.faultErr(NeedDropReply, err)
	return done
}

func (e *Env) cutAfter(n int) <-chan struct{} {
	e.faulty = true
	done, err := outside(func() (<-chan struct{}, error) { return e.cfg.Faults.CutAfter(e.ctx, n) })
	e.faultErr(NeedCutAfter, err)
	return done
}

func (e *Env) remove(name string) {
	e.produce(NeedRemove, func(ctx context.Context) error { return e.cfg.Faults.Remove(ctx, name) })
}

// overwrite makes somebody else the holder of name until the case has ended.
func (e *Env) overwrite(name string) {
	e.produce(NeedOverwrite, func(ctx context.Context) error { return e.cfg.Faults.Overwrite(ctx, name) })
	e.after(func() {
		ctx, cancel := e.detached(callTime)
		defer cancel()
		_, _ = outside(func() (struct{}, error) { return struct{}{}, e.cfg.Faults.Remove(ctx, name) })
	})
}

func (e *Env) restart(keepData bool) {
	e.produce(NeedRestart, func(ctx context.Context) error { return e.cfg.Faults.Restart(ctx, keepData) })
}

func (e *Env) requests() int64 {
	n, err := outside(func() (int64, error) { return e.cfg.Faults.Requests(e.ctx) })
	e.faultErr(NeedRequests, err)
	return n
}

// leftovers polls until the server keeps nothing of the case, and ends the case if that is not so within d.
func (e *Env) leftovers(d time.Duration, why string) {
	f := e.cfg.Faults.Leftovers
	if f == nil {
		return // the cases in which it matters most need it; the others take what they can get
	}
	var left []string
	ok := poll(e.ctx, d, func() bool {
		var err error
		left, err = outside(func() ([]string, error) { return f(context.WithoutCancel(e.ctx), e.prefix) })
		e.faultErr(NeedLeftovers, err)
		return len(left) == 0
	})
	if !ok {
		e.failf("%s, so the server must keep nothing of it; after %v it keeps %q", why, d, left)
	}
}

// happened says whether a fault that happens once has, during a call that is over by now. It may say so a moment after the call saw it.
func happened(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(50 * time.Millisecond):
		return false
	}
}

// requestsNow is requests for goroutines beside the case's own.
func (e *Env) requestsNow() int64 {
	n, err := outside(func() (int64, error) { return e.cfg.Faults.Requests(e.ctx) })
	if err != nil {
		e.fail(err)
	}
	return n
}
