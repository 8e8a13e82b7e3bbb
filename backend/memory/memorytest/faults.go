package memorytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Call is a kind of call to the server.
type Call int

// The kinds of calls.
const (
	Look    Call = iota // Inspect, List, Break and Check
	Claim               // TryAcquire, Wait, Requeue and Attach
	Renew               // of one lease or of a batch; Detach
	Release             // of one claim
	Abandon             // of a claim whose outcome is unknown
)

// Faults injects faults between clients and their server. A [Backend] has its own, like a network that fails one machine. If several share one, it is
// like a server that fails all its clients. The zero value injects none. All methods may be called concurrently.
type Faults struct {
	mu          sync.Mutex
	next        []*fault // for later calls, in order
	counts      [Abandon + 1]int
	paused      chan struct{}      // closed by Resume; nil: not paused
	down        error              // every call fails with it, if not nil
	delay       time.Duration      // of every call
	conn        context.Context    // ends when the connection breaks, for calls under way; nil: there are none
	cut         context.CancelFunc // ends conn
	undelivered []func()           // callbacks held back
}

// fault is what happens to one call.
type fault struct {
	kind      Call // anyCall: the calls-th call of any kind from now on
	calls     int
	delay     time.Duration
	err       error
	loseReply bool
	cut       bool
	happened  chan struct{}
}

const anyCall Call = -1

// FailNext fails the next call of the kind that has no fault yet with err, before it reaches the server. err should match an error class of
// package driver; nil is driver.ErrUnavailable. The channel is closed when it has happened.
func (f *Faults) FailNext(c Call, err error) <-chan struct{} {
	if err == nil {
		err = fmt.Errorf("%w: FailNext", driver.ErrUnavailable)
	}
	return f.add(fault{kind: c, err: err})
}

// DelayNext delays the next call of the kind that has no fault yet by d on its way to the server. If its context ends before, it does not reach the
// server, and returns driver.ErrUnknown, as over a network. The channel is closed when the delay has begun.
func (f *Faults) DelayNext(c Call, d time.Duration) <-chan struct{} {
	return f.add(fault{kind: c, delay: d})
}

// LoseNextReply lets the next call of the kind that has no fault yet take effect, but return driver.ErrUnknown: a claim is granted without its
// client's knowledge. The channel is closed when it has happened.
func (f *Faults) LoseNextReply(c Call) <-chan struct{} {
	return f.add(fault{kind: c, loseReply: true})
}

func (f *Faults) add(one fault) <-chan struct{} {
	one.happened = make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, &one)
	return one.happened
}

// CutAfter lets n more calls of any kind (n ≥ 1) reach the server, and does Cut before the reply of the last one. The channel is closed when that
// call has begun.
func (f *Faults) CutAfter(n int) <-chan struct{} {
	return f.add(fault{kind: anyCall, calls: n, cut: true})
}

// Cut breaks the connection once. Calls under way return driver.ErrUnknown; later ones succeed.
func (f *Faults) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disconnect()
}

// Fail makes every call fail with err, before it reaches the server, until Fail(nil). Calls under way return driver.ErrUnknown. The server's
// callbacks arrive afterwards. Locks that are not renewed expire.
func (f *Faults) Fail(err error) {
	f.change(func() {
		if f.down = err; err != nil {
			f.disconnect()
		}
	})
}

// disconnect ends the calls under way. The caller holds mu.
func (f *Faults) disconnect() {
	if f.conn != nil {
		f.cut()
		f.conn = nil
	}
}

// Pause cuts clients off until Resume: every call blocks until its context ends, and neither replies nor the server's callbacks arrive. The server
// keeps running: locks that are not renewed expire.
func (f *Faults) Pause() {
	f.change(func() {
		if f.paused == nil {
			f.paused = make(chan struct{})
		}
	})
}

// Resume ends Pause. Blocked calls go on, and callbacks held back arrive.
func (f *Faults) Resume() {
	f.change(func() {
		if f.paused != nil {
			close(f.paused)
			f.paused = nil
		}
	})
}

// Delay delays the reply of every call by d, until Delay(0).
func (f *Faults) Delay(d time.Duration) { f.change(func() { f.delay = d }) }

// Restore ends Pause, Fail and Delay, and withdraws other faults that have not happened yet.
func (f *Faults) Restore() {
	f.change(func() { f.next, f.down, f.delay = nil, nil, 0 })
	f.Resume()
}

// change changes f, and delivers callbacks if they can now get through.
func (f *Faults) change(how func()) {
	f.mu.Lock()
	how()
	var undelivered []func()
	if !f.isCutOff() {
		undelivered, f.undelivered = f.undelivered, nil
	}
	f.mu.Unlock()
	for _, callback := range undelivered {
		callback()
	}
}

// isCutOff reports whether nothing gets through. The caller holds mu.
func (f *Faults) isCutOff() bool { return f.paused != nil || f.down != nil }

// Calls is how many calls of the kind were made so far. A batch of renewals is one.
func (f *Faults) Calls(c Call) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[c]
}

// take counts a call, and returns its fault and a context that ends when its connection breaks.
func (f *Faults) take(c Call) (fault, context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[c]++
	if f.conn == nil {
		f.conn, f.cut = context.WithCancel(context.Background())
	}
	var met fault
	found := false // one of this kind: the next one is for the next call
	f.next = slices.DeleteFunc(f.next, func(one *fault) bool {
		switch {
		case one.kind == anyCall:
			if one.calls--; one.calls > 0 {
				return false
			}
		case one.kind != c || found:
			return false
		default:
			found = true
		}
		met = fault{delay: met.delay + one.delay, err: cmp.Or(met.err, one.err), loseReply: met.loseReply || one.loseReply, cut: met.cut || one.cut}
		close(one.happened)
		return true
	})
	return met, f.conn
}

func (f *Faults) state() (paused chan struct{}, delay time.Duration, down error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused, f.delay, f.down
}
