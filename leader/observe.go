package leader

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/lockport/lockport"
)

// State is the state of a call of Run.
type State int

// The states, in the order in which a term passes through them.
const (
	Campaigning State = iota // waits for the lock
	Leading                  // has the lock, and fn is about to be called
	Stopping                 // fn's context has ended, but fn has not returned: another process may lead soon
	Idle                     // fn has returned or panicked, and the lock is released; or the campaign failed
)

// String names the state.
func (s State) String() string {
	return [...]string{"campaigning", "leading", "stopping", "idle"}[s]
}

// Change is a change of the State of a call of Run.
type Change struct {
	State State
	Term  *lockport.Lock // while Leading and Stopping; nil otherwise
	Pause time.Duration  // Idle: until the next campaign; 0: Run is about to return

	// Err is, at Stopping, the cause of the context's end. At Idle it is why the term or the campaign ended, and why the release failed; nil: fn
	// returned nil, or Run's context ended the term.
	Err error
}

// Observe makes Run call f at every change, one call at a time, in order. Run waits for f: a term neither begins nor ends before f returns. So f must
// be quick, and must not wait for fn. To end the program if fn hangs, set a timer at Stopping and clear it at Idle.
func Observe(f func(Change)) Option {
	return func(c *candidate) error { c.observe = f; return nil }
}

func (c *candidate) report(change Change) {
	if c.observe != nil {
		c.observe(change)
	}
}

// reportStopping reports Stopping when held ends. Call end after fn has returned: it cancels the report, or waits for one under way.
func (c *candidate) reportStopping(held context.Context, term *lockport.Lock) (end func()) {
	reported := make(chan struct{})
	stop := context.AfterFunc(held, func() {
		defer close(reported)
		c.report(Change{State: Stopping, Term: term, Err: context.Cause(held)})
	})
	return func() {
		if !stop() {
			<-reported
		}
	}
}

// lookTimeout bounds one Inspect of Watch: a client library may wait for a silent server for ever.
const lookTimeout = 5 * time.Second

// Watch yields who leads name, and again after every change, until ctx ends. Use it in processes that do not campaign. It polls client.Inspect, at
// once and then after every pause, which must be positive. So it is late by up to a pause and can miss a short term. If Status.Held is false, nobody
// leads. Since is the start of the term, and Token is the term's, if the backend knows them (docs/backends in the repository); ZooKeeper may show a
// smaller Token. A change is another Owner or Token.
//
// Watch yields every error of Inspect, and continues unless a retry does not help. One such error is errors.ErrUnsupported: the backend cannot tell.
func Watch(ctx context.Context, client *lockport.Client, name string, pause time.Duration) iter.Seq2[lockport.Status, error] {
	return func(yield func(lockport.Status, error) bool) {
		if pause <= 0 {
			yield(lockport.Status{}, fmt.Errorf("leader: %w: Watch's pause is %v; it must be positive", lockport.ErrInvalidOption, pause))
			return
		}
		var last *lockport.Status
		for {
			look, cancel := context.WithTimeout(ctx, lookTimeout)
			now, err := client.Inspect(look, name)
			cancel()
			if now.Shared || now.Permits != 0 { // readers and holders of permits do not lead
				now = lockport.Status{Name: now.Name, Waiters: now.Waiters}
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(now, err) || isPermanent(err) {
					return
				}
			case last == nil || now.Owner != last.Owner || now.Token != last.Token:
				last = &now
				if !yield(now, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	}
}
