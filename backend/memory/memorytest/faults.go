package memorytest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Call is a kind of calls to the server.
type Call int

// The kinds of calls.
const (
	Claim   Call = iota // TryAcquire and Wait; Requeue
	Renew               // of one lease or of a batch
	Release             // of one claim
	Abandon             // of a claim whose outcome is unknown
	Look                // Inspect, List, Break and Check
)

// Faults is what goes wrong, on demand, between clients and their server. A [Backend] has its own, as a network that fails one machine,
// unless several are made with the same, as a server that fails all its clients. The zero value is none. All methods may be
// called concurrently.
type Faults struct {
	mu     sync.Mutex
	next   []*fault // for coming calls, in order
	counts map[Call]int
	paused chan struct{}      // closed by Resume; nil: not paused
	down   error              // what every call fails with; nil: it does not
	delay  time.Duration      // of every call
	line   context.Context    // ends when the connection breaks, for calls under way; nil: there are none
	cut    context.CancelFunc // ends line
	unsaid []func()           // callbacks that came meanwhile
}

// fault is what happens to one call.
type fault struct {
	kind      Call // anyCall: whatever it is
	calls     int  // how many more of the kind must come, this one among them
	delay     time.Duration
	err       error
	loseReply bool
	cut       bool
	happened  chan struct{}
}

const anyCall Call = -1

// FailNext makes the next call of the kind, after those that already have a fault, return err without reaching the
// server. err should match an error class of the package driver, such as driver.ErrUnavailable; nil is that. The channel
// is closed when it has happened.
func (f *Faults) FailNext(c Call, err error) <-chan struct{} {
	if err == nil {
		err = fmt.Errorf("%w: FailNext", driver.ErrUnavailable)
	}
	return f.add(fault{kind: c, calls: 1, err: err})
}

// DelayNext makes the next call of the kind, after those that already have a fault, take d longer to reach the server. If
// its context ends before, it does not reach the server, and returns driver.ErrUnknown, as over a network. The channel is
// closed when it has begun.
func (f *Faults) DelayNext(c Call, d time.Duration) <-chan struct{} {
	return f.add(fault{kind: c, calls: 1, delay: d})
}

// LoseNextReply lets the next call of the kind, after those that already have a fault, take effect, and makes it return
// driver.ErrUnknown: a claim is granted, but its client does not learn of it. The channel is closed when it has happened.
func (f *Faults) LoseNextReply(c Call) <-chan struct{} {
	return f.add(fault{kind: c, calls: 1, loseReply: true})
}

func (f *Faults) add(one fault) <-chan struct{} {
	one.happened = make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, &one)
	return one.happened
}

// CutAfter lets n more calls of any kind (n ≥ 1) reach the server, and does Cut before the reply of the last one. The channel is closed when
// that call has begun.
func (f *Faults) CutAfter(n int) <-chan struct{} {
	return f.add(fault{kind: anyCall, calls: n, cut: true})
}

// Cut breaks the connection once. Calls under way return driver.ErrUnknown; later ones succeed.
func (f *Faults) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breakLine()
}

// Fail makes every call fail with err, without reaching the server, until Fail(nil); those under way return driver.ErrUnknown.
// What the server has to say meanwhile arrives afterwards. Locks that are not renewed expire.
func (f *Faults) Fail(err error) {
	f.change(func() {
		if f.down = err; err != nil {
			f.breakLine()
		}
	})
}

// breakLine ends the calls under way. The caller has the mutex.
func (f *Faults) breakLine() {
	if f.line != nil {
		f.cut()
		f.line = nil
	}
}

// Pause cuts clients off: until Resume, every call blocks until its context ends, replies of calls on their way do not arrive,
// and nor does what the server has to say. The server goes on: locks that are not renewed expire.
func (f *Faults) Pause() {
	f.change(func() {
		if f.paused == nil {
			f.paused = make(chan struct{})
		}
	})
}

// Resume ends Pause. Blocked calls go on, and what the server had to say meanwhile arrives.
func (f *Faults) Resume() {
	f.change(func() {
		if f.paused != nil {
			close(f.paused)
			f.paused = nil
		}
	})
}

// Delay makes the reply of every call come d later, until Delay(0).
func (f *Faults) Delay(d time.Duration) { f.change(func() { f.delay = d }) }

// Restore ends Pause, Fail and Delay, and takes back what has not happened yet of the others.
func (f *Faults) Restore() {
	f.change(func() { f.next, f.down, f.delay = nil, nil, 0 })
	f.Resume()
}

// change changes f and says what can be said then.
func (f *Faults) change(how func()) {
	f.mu.Lock()
	how()
	var unsaid []func()
	if !f.isSilent() {
		unsaid, f.unsaid = f.unsaid, nil
	}
	f.mu.Unlock()
	for _, say := range unsaid {
		say()
	}
}

// isSilent says that nothing gets through. The caller has the mutex.
func (f *Faults) isSilent() bool { return f.paused != nil || f.down != nil }

// Calls is how many calls of the kind were made so far; a batch of renewals is one.
func (f *Faults) Calls(c Call) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[c]
}

// say runs callback, now or when it can get through.
func (f *Faults) say(callback func()) {
	f.mu.Lock()
	silent := f.isSilent()
	if silent {
		f.unsaid = append(f.unsaid, callback)
	}
	f.mu.Unlock()
	if !silent {
		callback()
	}
}

// take counts a call and takes the fault that it meets. The context ends when its connection breaks.
func (f *Faults) take(c Call) (fault, context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = make(map[Call]int)
	}
	f.counts[c]++
	if f.line == nil {
		f.line, f.cut = context.WithCancel(context.Background())
	}
	var met fault
	f.next = slices.DeleteFunc(f.next, func(one *fault) bool {
		switch {
		case one.kind == anyCall:
			one.calls--
			met.cut = met.cut || one.calls == 0
		case one.kind == c && met.happened == nil: // a later one of the kind is for a later call
			one.calls--
			one.cut = met.cut
			met = *one
		}
		if one.calls == 0 {
			close(one.happened)
		}
		return one.calls == 0
	})
	return met, f.line
}

// state is what every call meets now.
func (f *Faults) state() (paused chan struct{}, delay time.Duration, down error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused, f.delay, f.down
}
