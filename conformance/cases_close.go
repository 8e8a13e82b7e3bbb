package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// closeCases are about Close.
var closeCases = group("close",
	quick("holding", "P8 no leaks: Close ends every hold with ErrClosed, not as lost, and frees their names", func(e *Env) {
		a, b := e.client(), e.client()
		var locks []*lockport.Lock
		for range 20 {
			locks = append(locks, e.acquire(a, e.name()))
		}
		e.check(a.Close(), "Close")
		for _, l := range locks {
			if err := l.Err(); !errors.Is(err, lockport.ErrClosed) || errors.Is(err, lockport.ErrLost) {
				e.failf("after Close Err is: %w", orNone(err))
			}
			select {
			case <-l.Lost():
				e.failf("Lost was closed by Close")
			default:
			}
			e.check(l.Release(e.ctx), "Release after Close returned")
			e.release(e.acquireWithin(b, l.Name(), soon, "the holder's client was closed"))
		}
	}),
	quick("waiting", "P8 no leaks: Close ends every wait with ErrClosed, and its claims", func(e *Env) {
		a, b := e.client(), e.client()
		l := e.acquire(a, e.name())
		var waits []*acquiring
		for range 5 {
			waits = append(waits, e.begin(b, l.Name()))
		}
		waits[4].notYet(30*time.Millisecond, "the name is held")
		e.check(b.Close(), "Close")
		for _, w := range waits {
			e.is(w.ended(endTime, "the client was closed"), lockport.ErrClosed, "a waiting Acquire, when its client was closed, returned")
		}
		e.release(l)
		e.party().free(l.Name(), "the name was released, and who waited has closed")
		e.leftovers(soon, "everything was released or closed")
	}),
	full("busy", "P8 no leaks: Close in the middle of acquisitions, renewals and releases ends them all", func(e *Env) {
		for range 5 {
			c := e.client()
			shared := e.name()
			own := []string{e.name(), e.name(), e.name(), e.name()}
			done := make(chan struct{})
			go func() {
				defer close(done)
				e.storm(12, 1000, func(ctx context.Context, i int) error {
					name := shared
					if i%3 == 0 {
						name = own[i/3]
					}
					l, err := c.Acquire(ctx, name)
					if errors.Is(err, lockport.ErrClosed) {
						return nil
					}
					if err != nil {
						return err
					}
					if i%2 == 0 {
						return nil // it stays held, and is renewed, until Close
					}
					return l.Release(ctx)
				})
			}()
			e.sleep(20 * time.Millisecond)
			e.closes(c)
			e.within(done, soon+endTime, "after Close, calls do not return with ErrClosed")
			p := e.party()
			for _, name := range append(own, shared) {
				p.free(name, "the client was closed, without an error")
			}
		}
	}),
	full("silent-server", "P8 no leaks: Close ends, with an error, although the server is silent", func(e *Env) {
		c := e.client()
		e.acquire(c, e.name())
		waits := e.begin(e.client(), e.name())
		_ = waits.granted(soon, "the name is new")
		e.freeze()
		pending := e.begin(c, e.name())
		over := make(chan error, 1)
		start := time.Now()
		go func() { over <- c.Close() }()
		e.is(pending.ended(soon, "the client was closed"), lockport.ErrClosed, "a waiting Acquire, when its client was closed, returned")
		select {
		case err := <-over:
			if err == nil && e.caps.Ends == driver.EndsTTL {
				e.failf("Close said nothing of the locks that it could not give back")
			}
		case <-time.After(4 * callTime):
			e.failf("Close has not returned after %v", time.Since(start))
		}
	}).needing(NeedFreeze).within(time.Minute),
)

// closes closes a client of a server that is well.
func (e *Env) closes(c *lockport.Client) {
	over := make(chan error, 1)
	go func() { over <- c.Close() }()
	select {
	case err := <-over:
		e.check(err, "Close")
	case <-time.After(soon):
		e.failf("Close, with a server that is well, has not returned after %v; the goroutines:\n%s", soon, labelled(e.prefix))
	}
}
