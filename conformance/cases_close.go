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
		locks := e.acquireMany(a, 20)
		e.check(a.Close(), "Close")
		for _, l := range locks {
			err := l.Err()
			e.require(errors.Is(err, lockport.ErrClosed) && !errors.Is(err, lockport.ErrLost), "after Close Err is: %w", err)
			e.notLost(l, "Close")
			e.check(l.Release(e.ctx), "Release after Close returned")
			e.release(e.acquireWithin(b, l.Name(), soon, "the holder's client was closed"))
		}
	}),
	quick("waiting", "P8 no leaks: Close ends every wait with ErrClosed, and its claims", func(e *Env) {
		l, b := e.acquire(e.client(), e.name()), e.client()
		var waits []*call[*lockport.Lock]
		for range 5 {
			waits = append(waits, e.begin(b, l.Name()))
		}
		waits[4].notYet(30*time.Millisecond, "the name is held")
		e.check(b.Close(), "Close")
		for _, w := range waits {
			e.endsClosed(w, endTime)
		}
		e.release(l)
		e.party().free(l.Name(), "the name was released, and who waited has closed")
		e.leftovers("everything was released or closed")
	}),
	full("busy", "P8 no leaks: Close in the middle of acquisitions, renewals and releases ends them all", func(e *Env) {
		for range 5 {
			c := e.client()
			names := []string{e.name(), e.name(), e.name(), e.name(), e.name()} // the last one is for most of them
			var busy []*call[struct{}]
			for i := range 12 {
				busy = append(busy, begin(e, "Acquire or Release", func(ctx context.Context) (none struct{}, _ error) {
					name := names[4]
					if i%3 == 0 {
						name = names[i/3]
					}
					for range 1000 {
						l, err := c.Acquire(ctx, name)
						if err == nil && i%2 > 0 { // the others stay held, and are renewed, until Close
							err = l.Release(ctx)
						}
						if err != nil && !errors.Is(err, lockport.ErrClosed) {
							return none, err
						}
					}
					return none, nil
				}))
			}
			e.sleep(20 * time.Millisecond)
			closed := begin(e, "Close", func(context.Context) (struct{}, error) { return struct{}{}, c.Close() })
			_, err := closed.ended(soon, "the server is well")
			e.check(err, "Close")
			for _, w := range busy {
				w.granted(soon+endTime, "the client was closed, and calls return with ErrClosed")
			}
			p := e.party()
			for _, name := range names {
				p.free(name, "the client was closed, without an error")
			}
		}
	}),
	full("silent-server", "P8 no leaks: Close ends, with an error, although the server is silent", func(e *Env) {
		c := e.client()
		e.acquire(c, e.name())
		e.acquire(e.client(), e.name())
		e.freeze()
		pending := e.begin(c, e.name())
		closed := begin(e, "Close", func(context.Context) (struct{}, error) { return struct{}{}, c.Close() })
		e.endsClosed(pending, soon)
		_, err := closed.ended(4*callTime, "the server is silent")
		e.require(err != nil || e.caps.Ends != driver.EndsTTL, "Close said nothing of the locks that it could not give back")
	}, "Freeze").within(time.Minute),
)

// endsClosed checks that an Acquire whose client was closed says so.
func (e *Env) endsClosed(w *call[*lockport.Lock], limit time.Duration) {
	e.is(errOf(w.ended(limit, "the client was closed")), "a waiting Acquire, when its client was closed, returned", lockport.ErrClosed)
}
