package play

import (
	"context"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

const (
	// checkEvery is how often a worker checks its hold against the clock.
	checkEvery = 5 * time.Millisecond
	// pauseSeen is the shortest gap between two checks that counts as a pause.
	pauseSeen = 100 * time.Millisecond
	// LeastExtension is the least move of a deadline that counts as a renewal: repeated reads of one deadline differ by nanoseconds.
	LeastExtension = time.Millisecond
)

// hold is a hold inside the worker process.
type hold struct {
	worker *worker
	lock   *lockport.Lock
	op     int64
	name   string
	token  lockport.Token
	over   chan struct{} // closed before the release

	mu       sync.Mutex
	deadline history.Instant // the last one seen
}

// record records an event of the hold.
func (h *hold) record(k history.Kind, err error) history.Event {
	return h.worker.record(h.event(k), err)
}

func (h *hold) event(k history.Kind) history.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return history.Event{Kind: k, Op: h.op, Name: h.name, Token: h.token, Deadline: h.deadline}
}

// begin records the start of the hold, and watches it.
func (h *hold) begin() history.Event {
	now := history.Now() // a reader of Got may pause the worker at once
	e := h.record(history.Got, nil)
	go h.watch(now)
	return e
}

// watch records the hold's deadlines and its loss until the release. last is when the hold was got: the worker may be paused before watch starts.
func (h *hold) watch(last history.Instant) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.over:
			return
		case <-h.lock.Lost():
			h.check(last)
			h.record(history.Told, h.lock.Err())
			return
		case <-tick.C:
			last = h.check(last)
		}
	}
}

// check compares Valid with the clock, and returns when it did. A renewal may move the deadline meanwhile, so the later deadline counts.
func (h *hold) check(last history.Instant) history.Instant {
	now := history.Now()
	valid := h.lock.Valid()
	if h.readDeadline() > LeastExtension {
		h.record(history.Extended, nil)
	}
	e := h.event(history.Checked)
	e.At, e.Valid = now, valid
	if now.Sub(last) > pauseSeen || e.Late() {
		h.worker.record(e, nil)
	}
	return now
}

// readDeadline stores the current deadline, and returns by how much it has moved. An ended hold has none.
func (h *hold) readDeadline() (moved time.Duration) {
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
	h.readDeadline()
	h.record(history.Releasing, nil)
	h.record(history.Released, h.lock.Release(context.Background()))
}

// stay keeps the hold for d, or until it is lost or the worker is asked to end.
func (h *hold) stay(d time.Duration) {
	select {
	case <-time.After(d):
	case <-h.lock.Lost():
	case <-h.worker.leaving.Done():
	}
}

// update reads the register, stays for a while, and writes the value plus one. With careful it writes only if the hold is still valid. The worker may
// be paused between that check and the write.
func (h *hold) update(stay time.Duration, careful bool) {
	u := Update{Name: h.name, Token: h.token}
	value, err := u.ask(h.worker.register)
	u.Write, u.Value = true, value+1
	if err == nil {
		h.stay(stay)
		if careful && !h.lock.Valid() {
			return
		}
		_, err = u.ask(h.worker.register)
	}
	e := h.event(history.Wrote)
	e.Value = u.Value
	if err != nil {
		e.Kind = history.Refused
	}
	h.worker.record(e, err)
}
