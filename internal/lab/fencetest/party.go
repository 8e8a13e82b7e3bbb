package fencetest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/worker"
)

// patience bounds each step of a run.
const patience = 30 * time.Second

// job is what a party is told when it begins.
type job struct {
	Kind, Store, Locks string
	TTL                time.Duration
	Names              []string
}

// The orders to a worker.
const (
	orderTake  = "take"  // take the locks of all names, register, read
	orderWrite = "write" // write for all names, without another look at the lock
)

// counts says what became of an order, by name.
type counts struct {
	Written, Refused int
}

var lateWorker = worker.Kind[job, string, counts]{Variable: "LOCKPORT_FENCETEST_WORKER"}

// known are the kinds that Main was given.
var known map[string]Kind

// Main is what TestMain is to exit with: the result of the tests. In a worker process, which a run starts, it does not return.
func Main(m *testing.M, kinds map[string]Kind) int {
	known = kinds
	lateWorker.Main(func(_ context.Context, j job) (worker.Worker[string, counts], error) { return open(j) })
	return m.Run()
}

// party is one of the two who write: the worker, or the test itself.
type party struct {
	names []string
	store Store
	locks *lockport.Client
	held  []holder // by the index of the name
}

// holder is one hold, which has read.
type holder struct {
	lock  *lockport.Lock
	value int64
	write func(ctx context.Context, value int64) error
}

func open(j job) (*party, error) {
	k, ok := known[j.Kind]
	if !ok {
		return nil, errors.New("TestMain did not give fencetest.Main the kind " + j.Kind)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := k.Store(ctx, j.Store)
	if err != nil {
		return nil, err
	}
	locks, err := k.Locks(ctx, j.Locks, j.TTL)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &party{names: j.Names, store: store, locks: locks, held: make([]holder, len(j.Names))}, nil
}

// Close ends a party. It may find locks lost.
func (p *party) Close() { _, _ = p.locks.Close(), p.store.Close() }

// Do carries out an order.
func (p *party) Do(order string) (counts, error) {
	switch order {
	case orderTake:
		return p.take()
	case orderWrite:
		defer p.release()
		return p.write(0, 1)
	}
	return counts{}, os.ErrInvalid
}

// take takes all names at once, registers, and reads.
func (p *party) take() (counts, error) {
	return p.each(0, 1, func(ctx context.Context, name string, h *holder) (err error) {
		for { // on a busy machine a small TTL may be over before the grant is there
			if h.lock, err = p.locks.Acquire(ctx, name); !errors.Is(err, lockport.ErrUnavailable) || ctx.Err() != nil {
				break
			}
		}
		if err == nil {
			h.value, h.write, err = p.store.Begin(ctx, h.lock)
		}
		return err
	})
}

// write writes the number that was read plus one. Nobody asks whether the lock is still valid: what may come between that question and the writing is
// what fences are for.
func (p *party) write(first, step int) (counts, error) {
	return p.each(first, step, func(ctx context.Context, _ string, h *holder) error { return h.write(ctx, h.value+1) })
}

// release ends all holds. That they were lost is no surprise.
func (p *party) release() {
	_, _ = p.each(0, 1, func(ctx context.Context, _ string, h *holder) error { return h.lock.Release(ctx) })
}

// each calls f at once for every step-th name from the first on.
func (p *party) each(first, step int, f func(ctx context.Context, name string, h *holder) error) (c counts, all error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results := make(chan error, len(p.names))
	calls := 0
	for i := first; i < len(p.names); i += step {
		go func() { results <- f(ctx, p.names[i], &p.held[i]) }()
		calls++
	}
	for range calls {
		switch err := <-results; {
		case err == nil:
			c.Written++
		case errors.Is(err, fence.ErrStale):
			c.Refused++
		default:
			all = errors.Join(all, err)
		}
	}
	return c, all
}
