package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// Phase is one run of a cell: several workers, and a fault. Methods that can fail but return no error end the calling act: see [Check]. Safe for
// concurrent use, except Rand.
type Phase struct {
	Environment *environment.Running
	Cell        *Cell
	// Ctx ends when the phase's time is over.
	Ctx context.Context
	// TTL is the locks' TTL.
	TTL time.Duration
	// Rand is the source of the scheduler's choices.
	Rand *rand.Rand
	// Name is the name of a script's lock. It begins the names of a storm's locks.
	Name string

	register *register
	storm    bool // the script is a [Storm]

	mu      sync.Mutex
	events  []history.Event
	changed chan struct{} // closed and replaced when there are more events, or a worker has ended
	workers []*Worker
	spawned int
}

// Apart harms links of a worker until back heals them. what describes the harm for people.
func (s *Phase) Apart(w *Worker, what string, links faultproxy.Group, harm func(*faultproxy.Proxy)) (back func(heal func(*faultproxy.Proxy))) {
	s.record(history.Event{Kind: history.Cut, Worker: w.Name, Err: what})
	links.Each(harm)
	return func(heal func(*faultproxy.Proxy)) {
		links.Each(heal)
		s.record(history.Event{Kind: history.Mended, Worker: w.Name})
	}
}

// record adds events to the history, and wakes waiters. Zero times become now.
func (s *Phase) record(events ...history.Event) {
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

// Events returns all events so far. Those of one worker are in order.
func (s *Phase) Events() []history.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// await waits for an event that satisfies is, at index from or later. If w is not nil, it waits only while w lives.
func (s *Phase) await(ctx context.Context, w *Worker, from int, is func(history.Event) bool) (history.Event, error) {
	for {
		end := context.Cause(ctx) // read before the last look at the events
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
	s.record(history.Event{Kind: history.Noted, Err: fmt.Sprintf(format, args...)})
}

// Found adds a script's observation that the events do not show, as a sentence.
func (s *Phase) Found(class report.Class, format string, args ...any) {
	s.record(history.Event{Kind: history.Found, Class: history.Class(class), Err: fmt.Sprintf(format, args...)})
}

// Injected records that the fault is about to happen.
func (s *Phase) Injected() { s.record(history.Event{Kind: history.Injected}) }

// Healed records that the fault has ended and the servers serve.
func (s *Phase) Healed() { s.record(history.Event{Kind: history.Healed}) }

// Away records that nobody can acquire a lock until Back. Earlier requests must have ended.
func (s *Phase) Away() { s.record(history.Event{Kind: history.Away}) }

// Back records that locks can be acquired again.
func (s *Phase) Back() { s.record(history.Event{Kind: history.Back}) }

// Limit is how long somebody may need to acquire a lock that is free, or becomes free within a TTL.
func (s *Phase) Limit() time.Duration { return Patience * (s.TTL + time.Second) }

// BetweenTTLs returns a random duration between least and most TTLs of the locks.
func (s *Phase) BetweenTTLs(least, most float64) time.Duration {
	ttl := float64(s.TTL)
	return between(s.Rand, time.Duration(least*ttl), time.Duration(most*ttl))
}

// Workers returns the workers that have not ended.
func (s *Phase) Workers() []*Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.workers), func(w *Worker) bool { return !w.process.Alive() })
}

// holds waits for n holds from event index from on.
func (s *Phase) holds(from, n int) {
	_, err := s.await(s.Ctx, nil, from, func(e history.Event) bool {
		if e.Kind == history.Got {
			n--
		}
		return n <= 0
	})
	if err != nil {
		Check(fmt.Errorf("too few locks were acquired: %w", err))
	}
}

// Holder waits until workers hold locks, and returns one of them at random.
func (s *Phase) Holder() *Worker {
	for {
		events := s.Events()
		held := make(map[string]map[int64]bool) // the holds of each worker; a History of all events would take too long
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
		s.holds(len(events), 1)
	}
}

// FailOver kills the primary, promotes its replica after between least and most TTLs, and directs new connections of all workers there, as a service
// address that moves does.
func (s *Phase) FailOver(least, most float64) {
	s.Note("the primary is killed, and its replica is promoted")
	Check(s.Environment.Nodes()[0].Kill())
	s.Pause(least, most)
	Check(s.Environment.Servers.(environment.Pair).Promote(s.Ctx))
	for _, w := range s.Workers() {
		Check(w.Endpoint.Retarget(s.Environment.URL()))
	}
}
