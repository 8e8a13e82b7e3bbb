package memorytest

import (
	"fmt"
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
	Release             // also that of a Requeue
	Abandon             // of a claim whose outcome is unknown
	Look                // Inspect, List, Break and Check
)

// Faults is what goes wrong, on demand, between clients and their server. A [Backend] has its own, as a network that fails one machine,
// unless several are made with the same, as a server that fails all its clients. The zero value is none. All methods may be
// called concurrently.
type Faults struct {
	mu     sync.Mutex
	next   map[Call][]fault // for the next calls of a kind, in order
	counts map[Call]int
	paused chan struct{} // closed by Resume; nil: not paused
	down   error         // what every call fails with; nil: it does not
	broken chan struct{} // closed when down is set, for calls on their way
	delay  time.Duration // of every call
	unsaid []func()      // callbacks that came meanwhile
}

// fault is what happens to one call.
type fault struct {
	delay     time.Duration
	err       error
	loseReply bool
	happened  chan struct{}
}

// FailNext makes the next call of the kind, after those that faults are set for already, return err without reaching the
// server. err should match an error class of the package driver, such as driver.ErrUnavailable; nil is that. The channel
// is closed when it has happened.
func (f *Faults) FailNext(c Call, err error) <-chan struct{} {
	if err == nil {
		err = fmt.Errorf("%w: FailNext", driver.ErrUnavailable)
	}
	return f.add(c, fault{err: err})
}

// DelayNext makes the next call of the kind, after those that faults are set for already, take d longer to reach the server. If
// its context ends before, it does not reach the server, and returns driver.ErrUnknown, as over a network. The channel is
// closed when it has begun.
func (f *Faults) DelayNext(c Call, d time.Duration) <-chan struct{} { return f.add(c, fault{delay: d}) }

// LoseNextReply lets the next call of the kind, after those that faults are set for already, take effect, and makes it return
// driver.ErrUnknown: a claim is granted, but its client does not learn of it. The channel is closed when it has happened.
func (f *Faults) LoseNextReply(c Call) <-chan struct{} { return f.add(c, fault{loseReply: true}) }

func (f *Faults) add(c Call, one fault) <-chan struct{} {
	one.happened = make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = make(map[Call][]fault)
	}
	f.next[c] = append(f.next[c], one)
	return one.happened
}

// Fail makes every call fail with err, without reaching the server, until Fail(nil); those that wait in the server's queue
// return driver.ErrUnknown. What the server has to say meanwhile arrives afterwards. Locks that are not renewed expire.
func (f *Faults) Fail(err error) {
	f.change(func() {
		f.down = err
		if err != nil && f.broken != nil {
			close(f.broken)
			f.broken = nil
		}
	})
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

// take counts a call and takes the fault that it meets.
func (f *Faults) take(c Call) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = make(map[Call]int)
	}
	f.counts[c]++
	if len(f.next[c]) == 0 {
		return fault{}
	}
	one := f.next[c][0]
	f.next[c] = f.next[c][1:]
	close(one.happened)
	return one
}

// pending says that a fault is set for the next call of the kind.
func (f *Faults) pending(c Call) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.next[c]) > 0
}

// state is what every call meets now.
func (f *Faults) state() (paused chan struct{}, delay time.Duration, down error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused, f.delay, f.down
}

// breaks is closed by the next Fail.
func (f *Faults) breaks() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		f.broken = make(chan struct{})
	}
	return f.broken
}
