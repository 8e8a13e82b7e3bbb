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
	// LeastExtension is by how much a renewal moves a deadline at least: it differs by nanoseconds each time it is asked for.
	LeastExtension = time.Millisecond
	// registerTime is how long a request to the register may take.
	registerTime = 10 * time.Second
)

// hold is a hold of a worker, inside of it.
type hold struct {
	worker *worker
	lock   *lockport.Lock
	op     int64
	name   string
	mode   history.Mode
	token  lockport.Token
	over   chan struct{} // closed when it is about to be released

	mu       sync.Mutex
	deadline history.Instant // the last that was seen
}

// say tells an event of the hold.
func (h *hold) say(k history.Kind, err error) history.Event { return h.worker.say(h.event(k), err) }

func (h *hold) event(k history.Kind) history.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return history.Event{Kind: k, Op: h.op, Name: h.name, Token: h.token, Deadline: h.deadline}
}

// begin tells of the hold, and follows it.
func (h *hold) begin() history.Event {
	now := history.Now() // whoever reads that it was got may pause the worker at once
	e := h.say(history.Got, nil)
	go h.watch(now)
	return e
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
			h.say(history.Told, h.lock.Err())
			return
		case <-tick.C:
			last = h.look(last)
		}
	}
}

// look compares Valid with the clock, and returns when it did. A renewal can move the deadline meanwhile, so the later one counts.
func (h *hold) look(last history.Instant) history.Instant {
	now := history.Now()
	valid := h.lock.Valid()
	if h.note() > LeastExtension {
		h.say(history.Extended, nil)
	}
	e := h.event(history.Believed)
	e.At, e.Valid = now, valid
	if valid && e.Deadline != 0 && now > e.Deadline {
		h.worker.say(e, nil)
	}
	if now.Sub(last) > pauseSeen {
		e.Kind = history.Checked
		h.worker.say(e, nil)
	}
	return now
}

// note takes up the deadline as it is now, and returns by how much it has moved. A hold that has ended has none.
func (h *hold) note() (moved time.Duration) {
	deadline, _ := h.lock.Deadline()
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := history.InstantOf(deadline); d > h.deadline {
		moved, h.deadline = d.Sub(h.deadline), d
	}
	return moved
}

// release releases the hold.
func (h *hold) release() {
	close(h.over)
	h.note()
	h.say(history.Releasing, nil)
	h.say(history.Released, h.lock.Release(context.Background()))
}

// stay keeps the hold for a while, which ends early when the hold is lost or the worker was asked to end.
func (h *hold) stay(d time.Duration) {
	select {
	case <-time.After(d):
	case <-h.lock.Lost():
	case <-h.worker.leaving.Done():
	}
}

// update reads the register, stays for a while, and writes what it read plus one. With careful it writes only if the hold is still valid, which leaves time to be
// paused between that look and the write.
func (h *hold) update(stay time.Duration, careful bool) {
	u, err := askRegister(h.worker.register, Update{Name: h.name, Token: h.token})
	u.Write, u.Value = true, u.Value+1
	if err == nil {
		h.stay(stay)
		if careful && !h.lock.Valid() {
			return
		}
		_, err = askRegister(h.worker.register, u)
	}
	e := h.event(history.Wrote)
	e.Value = u.Value
	if err != nil {
		e.Kind = history.Refused
	}
	h.worker.say(e, err)
}
