// Package gocronlock runs each job of a gocron schedule on one of several processes, with lockport's locks.
//
// A [Locker] locks every run of a job under the job's name; an [Elector] lets one process run all jobs. The README has the conditions on clocks
// and intervals.
package gocronlock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockport/lockport"
)

// Locker is a gocron.Locker, for gocron.WithDistributedLocker and gocron.WithDistributedJobLocker. Safe for concurrent use.
type Locker struct {
	locker lockport.Locker
	opts   []lockport.AcquireOption
	runs   sync.Map // of job name to *lockport.Lock
}

// NewLocker makes a Locker that acquires locks from l with opts. Set MinHold here or in l's options: without it, processes whose clocks differ
// run a short job once each. Close l after the scheduler's Shutdown; that can take as long as MinHold.
func NewLocker(l lockport.Locker, opts ...lockport.AcquireOption) *Locker {
	return &Locker{locker: l, opts: opts}
}

// Lock implements gocron.Locker. It does not wait. If another process has the lock of the job named key, the error matches lockport.ErrHeld:
// gocron skips this run and calls AfterLockError listeners. Any other error also skips the run.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.locker.TryAcquire(ctx, key, l.opts...)
	if err != nil {
		return nil, err
	}
	l.runs.Store(key, lock)
	return &run{l, lock}, nil
}

// Context returns a context that ends with ctx, or when the lock of the job named key is lost, with a cause that matches lockport.ErrLost. A job
// calls it first, with the context from gocron. If l does not lock the job, the context has ended. You must call cancel. With Permits or Shared, runs
// of one job at the same time in this process can get the context of another run.
func (l *Locker) Context(ctx context.Context, key string) (held context.Context, cancel context.CancelFunc) {
	value, _ := l.runs.Load(key)
	lock, _ := value.(*lockport.Lock)
	return during(ctx, lock)
}

// run is the lock of one run of a job.
type run struct {
	locker *Locker
	lock   *lockport.Lock
}

// Unlock implements gocron.Lock. gocron ignores its error; what Release cannot do at once, the client does in the background.
func (r *run) Unlock(ctx context.Context) error {
	r.locker.runs.CompareAndDelete(r.lock.Name(), r.lock) // it may be a later run's, after this one's lock was lost
	return r.lock.Release(ctx)
}

// Elector is a gocron.Elector, for gocron.WithDistributedElector. It campaigns when a job is due. Safe for concurrent use.
type Elector struct {
	locker lockport.Locker
	name   string
	opts   []lockport.AcquireOption

	turn chan struct{} // full while a goroutine campaigns or resigns
	lock atomic.Pointer[lockport.Lock]
}

// NewElector makes an Elector. The leader is the process that holds the lock name, acquired from l with opts.
func NewElector(l lockport.Locker, name string, opts ...lockport.AcquireOption) *Elector {
	return &Elector{locker: l, name: name, opts: opts, turn: make(chan struct{}, 1)}
}

// IsLeader implements gocron.Elector. It returns nil if this process leads, or becomes leader without waiting. It leads until its lock is lost,
// Resign, or the Locker is closed. The error matches lockport.ErrHeld if another process leads.
func (e *Elector) IsLeader(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer func() { <-e.turn }()
	if lock := e.lock.Load(); lock != nil && lock.Valid() {
		return nil
	}
	lock, err := e.locker.TryAcquire(ctx, e.name, e.opts...)
	e.lock.Store(lock) // nil with an error
	return err
}

// begin waits for the turn. It takes a free one even if ctx has ended: a lock must be released all the same.
func (e *Elector) begin(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Context returns a context that ends with ctx, or when this process stops leading, with the reason as its cause. If this process does not lead,
// the context has ended. You must call cancel.
func (e *Elector) Context(ctx context.Context) (leading context.Context, cancel context.CancelFunc) {
	return during(ctx, e.lock.Load())
}

// Resign lets another process lead. Call it after the scheduler's Shutdown: a job that is due later campaigns again.
func (e *Elector) Resign(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer func() { <-e.turn }()
	if lock := e.lock.Load(); lock != nil {
		return lock.Release(ctx)
	}
	return nil
}

// during is lock.Context; without a lock, the context has ended.
func during(ctx context.Context, lock *lockport.Lock) (context.Context, context.CancelFunc) {
	if lock != nil {
		return lock.Context(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(lockport.ErrReleased)
	return ctx, func() {}
}
