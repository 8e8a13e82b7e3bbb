package play

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
)

// Phase is one run of a cell: several workers, and a fault. Safe for concurrent use, save for Rand.
type Phase struct {
	Environment *environment.Running
	Cell        *Cell
	// Rand is where the choices of the scheduler come from.
	Rand *rand.Rand

	name     string // what all lock names of the phase begin with
	register *register

	mu      sync.Mutex
	events  []history.Event
	changed chan struct{} // closed, and made anew, when there are more events, or a worker has ended
	workers []*Worker
	spawned int
}

// say adds events to the history, and wakes who waits for one. Their time is now unless they have one.
func (p *Phase) say(events ...history.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		if e.At == 0 {
			e.At = history.Now()
		}
		p.events = append(p.events, e)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Events are all events so far, each worker's in their order.
func (p *Phase) Events() []history.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// Length is how many events there are.
func (p *Phase) Length() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.events)
}

// Await waits for an event that satisfies is, among those from index from on.
func (p *Phase) Await(ctx context.Context, from int, is func(history.Event) bool) (history.Event, error) {
	return p.await(ctx, nil, from, is)
}

// await is Await, for as long as w lives if that is not nil.
func (p *Phase) await(ctx context.Context, w *Worker, from int, is func(history.Event) bool) (history.Event, error) {
	for {
		end := context.Cause(ctx) // before a last look
		if end == nil && w != nil && !w.process.Alive() {
			end = fmt.Errorf("worker %s has ended", w.Name)
		}
		p.mu.Lock()
		fresh, changed := p.events[from:], p.changed
		p.mu.Unlock()
		if i := slices.IndexFunc(fresh, is); i >= 0 {
			return fresh[i], nil
		}
		if end != nil {
			return history.Event{}, end
		}
		from += len(fresh)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Note adds a remark to the history.
func (p *Phase) Note(format string, args ...any) {
	p.say(history.Event{Kind: history.Noted, Err: fmt.Sprintf(format, args...)})
}

// Injected notes that the fault is about to happen.
func (p *Phase) Injected() { p.Note(history.Injected) }

// Healed notes that the fault has ended and the servers serve.
func (p *Phase) Healed() { p.Note(history.Healed) }

// Away notes that from now on nobody can acquire a lock, until Back. What was under way must be over.
func (p *Phase) Away() { p.Note(history.Away) }

// Back notes that locks may be acquired again.
func (p *Phase) Back() { p.Note(history.Back) }

// Name is the name of a lock for a script.
func (p *Phase) Name() string { return p.name }

// Between is a random duration.
func (p *Phase) Between(least, most time.Duration) time.Duration { return between(p.Rand, least, most) }

// BetweenTTLs is a random duration between so many TTLs of the locks.
func (p *Phase) BetweenTTLs(least, most float64) time.Duration {
	ttl := float64(p.Environment.TTL)
	return p.Between(time.Duration(least*ttl), time.Duration(most*ttl))
}

// Sleep lets d pass, or returns the cause of ctx's end.
func (p *Phase) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Workers are the workers that have not ended.
func (p *Phase) Workers() []*Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.workers), func(w *Worker) bool { return !w.process.Alive() })
}

// Two starts two more workers, which do what they are told.
func (p *Phase) Two(ctx context.Context) (a, b *Worker, err error) {
	if a, err = p.Worker(ctx); err != nil {
		return nil, nil, err
	}
	b, err = p.Worker(ctx)
	return a, b, err
}

// Grants waits until there have been n more holds.
func (p *Phase) Grants(ctx context.Context, n int) error { return p.holds(ctx, p.Length(), n) }

// holds waits until there have been n holds since the event with that index.
func (p *Phase) holds(ctx context.Context, from, n int) error {
	_, err := p.Await(ctx, from, func(e history.Event) bool {
		if e.Kind == history.Got {
			n--
		}
		return n <= 0
	})
	return err
}

// Holder waits until workers hold locks, and returns one of them at random.
func (p *Phase) Holder(ctx context.Context) (*Worker, error) {
	for {
		held := make(map[string]map[int64]bool) // the holds of each worker
		events := p.Events()
		for _, e := range events {
			switch {
			case e.Kind == history.Spawned:
				held[e.Worker] = make(map[int64]bool)
			case e.Kind == history.Got:
				held[e.Worker][e.Op] = true
			case e.Kind == history.Told || e.Kind == history.Releasing:
				delete(held[e.Worker], e.Op)
			}
		}
		if some := slices.DeleteFunc(p.Workers(), func(w *Worker) bool { return len(held[w.Name]) == 0 }); len(some) > 0 {
			return some[p.Rand.IntN(len(some))], nil
		}
		if err := p.holds(ctx, len(events), 1); err != nil {
			return nil, fmt.Errorf("nobody acquired a lock: %w", err)
		}
	}
}

// Both is for a script in which two workers should believe now that they hold one lock, older since before newer: it asks both, and
// then has newer and older update the register, in this order. What they answer is in the history.
func (p *Phase) Both(ctx context.Context, older, newer *Hold) error {
	a, errOlder := older.Valid(ctx)
	b, errNewer := newer.Valid(ctx)
	if err := errors.Join(errOlder, errNewer); err != nil {
		return err
	}
	p.Note("%s believes to hold the lock: %t; %s: %t", older.Worker.Name, a, newer.Worker.Name, b)
	if err := newer.Update(ctx); err != nil {
		return err
	}
	return older.Update(ctx)
}

// Remove takes the lock on name away from its holder, at the servers, as an operator does. The history says so.
func (p *Phase) Remove(ctx context.Context, name string) error {
	p.Note("%s%s", history.Removed, name)
	return p.Environment.Remove(ctx, name)
}

// FailOver kills the primary, promotes its replica, and leads every worker there, as a service's address that moves does.
func (p *Phase) FailOver(ctx context.Context) error {
	if err := p.Environment.FailOver(ctx); err != nil {
		return err
	}
	return p.Retarget()
}

// Retarget leads the new connections of every worker to where the servers are now.
func (p *Phase) Retarget() error {
	for _, w := range p.Workers() {
		if err := w.Endpoint.Retarget(p.Environment.Addrs()); err != nil {
			return err
		}
	}
	return nil
}
