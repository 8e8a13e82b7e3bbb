package session

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/bounded"
)

// waiter is somebody who waits for a call to be answered. It is used again and again. Guarded by Backend.mu, save told.
type waiter struct {
	ctx   context.Context
	swept bool          // sweep looks after ctx
	told  chan struct{} // there is a reason to look
	at    int           // in Backend.waiting
}

// sweepTime is how often it is looked whether those who wait for an answer may still wait, where a context tells that at once without its Done, which costs
// it a channel and a timer: most answers come much sooner.
const sweepTime = 10 * time.Millisecond

// newWaiter makes a waiter. long: for somebody else's lock. mu is held.
func (b *Backend) newWaiter(ctx context.Context, long bool) *waiter {
	var w *waiter
	if n := len(b.idle); n > 0 {
		w = b.idle[n-1]
		b.idle = b.idle[:n-1]
	} else {
		w = &waiter{told: make(chan struct{}, 1)}
	}
	_, lazy := ctx.(*bounded.Context)
	w.ctx, w.swept = ctx, lazy && !long
	if !w.swept {
		return w
	}
	w.at = len(b.waiting)
	b.waiting = append(b.waiting, w)
	if !b.sweeping {
		b.sweeping = true
		if b.sweeper == nil {
			b.sweeper = time.AfterFunc(sweepTime, b.sweep)
		} else {
			b.sweeper.Reset(sweepTime)
		}
	}
	return w
}

// freeWaiter takes back a waiter whom nobody can signal any more. mu is held.
func (b *Backend) freeWaiter(w *waiter) {
	select {
	case <-w.told:
	default:
	}
	w.ctx = nil
	if w.swept {
		last := len(b.waiting) - 1
		b.waiting[w.at], b.waiting[last].at = b.waiting[last], w.at
		b.waiting[last] = nil
		b.waiting = b.waiting[:last]
	}
	if len(b.idle) < MaxBatch {
		b.idle = append(b.idle, w)
	}
}

// wait waits until there is a reason to look, or the context has ended. mu is not held.
func (w *waiter) wait() {
	if w.swept {
		<-w.told
		return
	}
	select {
	case <-w.told:
	case <-w.ctx.Done():
	}
}

// signal gives w a reason to look. mu is held.
func (w *waiter) signal() {
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// sweep signals those whose contexts have ended.
func (b *Backend) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.waiting {
		if w.ctx.Err() != nil {
			w.signal()
		}
	}
	if b.sweeping = len(b.waiting) > 0; b.sweeping {
		b.sweeper.Reset(sweepTime)
	}
}
