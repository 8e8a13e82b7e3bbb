package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
)

// Phase is one run of a cell: several workers, and a fault. Methods that could fail, and return no error, end the act that calls them: see
// [Check]. Safe for concurrent use, save for Rand.
type Phase struct {
	Environment *environment.Running
	Cell        *Cell
	// Ctx ends when the time of the phase is over.
	Ctx context.Context
	// TTL is that of the locks.
	TTL time.Duration
	// Rand is where the choices of the scheduler come from.
	Rand *rand.Rand

	name     string // what all lock names of the phase begin with
	register *register
	healed   atomic.Bool

	mu      sync.Mutex
	events  []history.Event
	changed chan struct{} // closed, and made anew, when there are more events, or a worker has ended
	workers []*Worker
	spawned int
}

// Apart harms links of a worker until back heals them. What says for people how it is harmed.
func (s *Phase) Apart(w *Worker, what string, links faultproxy.Group, harm func(*faultproxy.Proxy)) (back func(heal func(*faultproxy.Proxy))) {
	s.say(history.Event{Kind: history.Cut, Worker: w.Name, Err: what})
	links.Each(harm)
	return func(heal func(*faultproxy.Proxy)) {
		links.Each(heal)
		s.say(history.Event{Kind: history.Mended, Worker: w.Name})
	}
}

// say adds events to the history, and wakes who waits for one. Their time is now unless they have one.
func (s *Phase) say(events ...history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if e.At == 0 {
			e.At = history.Now()
		}
		s.events = append(s.events, e)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Events are all events so far, each worker's in their order.
func (s *Phase) Events() []history.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Length is how many events there are.
func (s *Phase) Length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

// await waits for an event that satisfies is, among those from index from on, for as long as w lives if that is not nil.
func (s *Phase) await(ctx context.Context, w *Worker, from int, is func(history.Event) bool) (history.Event, error) {
	for {
		end := context.Cause(ctx) // before a last look
		if end == nil && w != nil && !w.process.Alive() {
			end = fmt.Errorf("worker %s has ended", w.Name)
		}
		s.mu.Lock()
		fresh, changed := s.events[from:], s.changed
		s.mu.Unlock()
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
func (s *Phase) Note(format string, args ...any) {
	s.say(history.Event{Kind: history.Noted, Err: fmt.Sprintf(format, args...)})
}

// Found adds what a script has seen beside what events tell.
func (s *Phase) Found(class history.Class, format string, args ...any) {
	s.say(history.Event{Kind: history.Found, Class: class, Err: fmt.Sprintf(format, args...)})
}

// Injected notes that the fault is about to happen.
func (s *Phase) Injected() {
	s.healed.Store(false)
	s.Note(history.Injected)
}

// Healed notes that the fault has ended and the servers serve.
func (s *Phase) Healed() {
	s.healed.Store(true)
	s.Note(history.Healed)
}

// Away notes that from now on nobody can acquire a lock, until Back. What was under way must be over.
func (s *Phase) Away() { s.Note(history.Away) }

// Back notes that locks may be acquired again.
func (s *Phase) Back() { s.Note(history.Back) }

// Removed notes that the lock on name is about to be taken away from its holder.
func (s *Phase) Removed(name string) { s.Note("%s%s", history.Removed, name) }

// Name is the name of a lock for a script.
func (s *Phase) Name() string { return s.name }

// BetweenTTLs is a random duration between so many TTLs of the locks.
func (s *Phase) BetweenTTLs(least, most float64) time.Duration {
	ttl := float64(s.TTL)
	return between(s.Rand, time.Duration(least*ttl), time.Duration(most*ttl))
}

// Workers are the workers that have not ended.
func (s *Phase) Workers() []*Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.workers), func(w *Worker) bool { return !w.process.Alive() })
}

// Grants waits until there have been n more holds.
func (s *Phase) Grants(n int) { Check(s.holds(s.Length(), n)) }

// holds waits until there have been n holds since the event with that index.
func (s *Phase) holds(from, n int) error {
	_, err := s.await(s.Ctx, nil, from, func(e history.Event) bool {
		if e.Kind == history.Got {
			n--
		}
		return n <= 0
	})
	return err
}

// Holder waits until workers hold locks, and returns one of them at random.
func (s *Phase) Holder() *Worker {
	for {
		events := s.Events()
		held := make(map[string]map[int64]bool) // the holds of each worker; a History of what goes on would take longer than that
		for _, e := range events {
			switch e.Kind {
			case history.Spawned:
				held[e.Worker] = make(map[int64]bool)
			case history.Got:
				held[e.Worker][e.Op] = true
			case history.Told, history.Releasing:
				delete(held[e.Worker], e.Op)
			}
		}
		if some := slices.DeleteFunc(s.Workers(), func(w *Worker) bool { return len(held[w.Name]) == 0 }); len(some) > 0 {
			return some[s.Rand.IntN(len(some))]
		}
		if err := s.holds(len(events), 1); err != nil {
			Check(fmt.Errorf("nobody acquired a lock: %w", err))
		}
	}
}

// FailOver kills the primary, promotes its replica, and leads every worker there, as a service's address that moves does.
func (s *Phase) FailOver() {
	Check(s.Environment.FailOver(s.Ctx))
	s.Retarget()
	if pair, ok := s.Environment.Servers.(interface{ Follow(context.Context) error }); ok { // nobody is led to the old primary any more
		Check(pair.Follow(s.Ctx))
	}
}

// Retarget leads the new connections of every worker to where the servers are now.
func (s *Phase) Retarget() {
	for _, w := range s.Workers() {
		Check(w.Endpoint.Retarget(s.Environment.Addrs()))
	}
}
