package play

import (
	"context"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

const (
	// lookEvery is how often a worker compares its hold with the clock.
	lookEvery = 5 * time.Millisecond
	// pauseSeen is how long a worker must not have looked for a pause to be told as one.
	pauseSeen = 100 * time.Millisecond
)

// hold is a hold of a worker, inside of it.
type hold struct {
	worker *worker
	lock   *lockport.Lock
	op     int64
	name   string
	token  lockport.Token
	over   chan struct{} // closed when it is about to be released

	mu       sync.Mutex
	deadline history.Instant // the last that was seen
}

func (h *hold) event(k history.Kind) history.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return history.Event{Kind: k, Op: h.op, Name: h.name, Token: h.token, Deadline: h.deadline}
}

// begin tells of the hold, and follows it.
func (h *hold) begin() {
	now := history.Now() // who reads that it was got may pause the worker at once
	h.worker.say(h.event(history.Got))
	go h.watch(now)
}

// watch tells how the hold's deadline moves and when it is lost, until it is released, and compares Valid with the clock at every look.
// last is when it was got, for the worker may be paused before this begins.
func (h *hold) watch(last history.Instant) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.over:
			return
		case <-h.lock.Lost():
			h.look(last)
			e := h.event(history.Told)
			err := h.lock.Err()
			e.Err, e.Class = err.Error(), classOf(err)
			h.worker.say(e)
			return
		case <-tick.C:
			last = h.look(last)
		}
	}
}

// look compares Valid with the clock, and returns when it did. A renewal can move the deadline meanwhile, so the later one counts.
func (h *hold) look(last history.Instant) history.Instant {
	before := history.Now()
	valid := h.lock.Valid()
	if h.note(deadlineOf(h.lock)) > LeastExtension {
		h.worker.say(h.event(history.Extended))
	}
	e := h.event(history.Believed)
	e.At, e.Valid = before, valid
	if valid && e.Deadline != 0 && before > e.Deadline {
		h.worker.say(e)
	}
	if before.Sub(last) > pauseSeen {
		e.Kind = history.Checked
		h.worker.say(e)
	}
	return before
}

// LeastExtension is by how much a deadline moves that a renewal has moved: it differs by nanoseconds each time it is asked for.
const LeastExtension = time.Millisecond

// note takes up the deadline as it is now, 0 if the hold has ended, and returns by how much it has moved.
func (h *hold) note(d history.Instant) (moved time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d > h.deadline {
		moved = d.Sub(h.deadline)
		h.deadline = d
	}
	return moved
}

// release releases the hold.
func (h *hold) release() {
	close(h.over)
	h.note(deadlineOf(h.lock))
	h.worker.say(h.event(history.Releasing))
	err := h.lock.Release(context.Background())
	e := h.event(history.Released)
	if err != nil {
		e.Err, e.Class = err.Error(), classOf(err)
	}
	h.worker.say(e)
}

// registerTime is how long a request to the register may take.
const registerTime = 10 * time.Second

// update reads the registers, stays for a while, and writes what it read plus one. The stay ends early when the hold is lost or the worker was asked to
// end. With careful it writes only if the hold is still valid, which leaves time to be paused between that look and the write.
func (h *hold) update(stay time.Duration, careful bool) {
	var fenced, bare int64
	err := within(func(ctx context.Context) (err error) {
		fenced, bare, err = h.worker.register.Read(ctx, h.name, h.token)
		return err
	})
	if err == nil {
		select {
		case <-time.After(stay):
		case <-h.lock.Lost():
		case <-h.worker.leaving:
		}
		if careful && !h.lock.Valid() {
			return
		}
		err = within(func(ctx context.Context) error {
			return h.worker.register.Write(ctx, h.name, h.token, fenced+1, bare+1)
		})
	}
	e := h.event(history.Wrote)
	e.Value = fenced + 1
	if err != nil {
		e.Kind, e.Err, e.Class = history.Refused, err.Error(), classOf(err)
	}
	h.worker.say(e)
}

// within calls f, for registerTime at most.
func within(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), registerTime)
	defer cancel()
	return f(ctx)
}
