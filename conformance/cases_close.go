package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// closeCases test Close of a client.
var closeCases = group("close",
	quick("holding", "P8 no leaks: Close ends every hold with ErrClosed, not with ErrLost, and frees its name", func(e *Env) {
		a, b := e.client(), e.client()
		locks := e.acquireMany(a, 20)
		e.check(a.Close(), "Close")
		for _, l := range locks {
			err := l.Err()
			e.require(errors.Is(err, lockport.ErrClosed) && !errors.Is(err, lockport.ErrLost), "after Close Err must be ErrClosed alone; it is: %w", err)
			e.notLost(l, "Close")
			e.check(l.Release(e.ctx), "Release after Close must return nil; it returned")
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
		e.party().wantFree(l.Name(), "the name was released, and the waiting client was closed")
		e.leftovers("everything was released or closed")
	}),
	full("busy", "P8 no leaks: Close ends acquisitions, renewals and releases that are under way", func(e *Env) {
		for range 5 {
			c := e.client()
			names := []string{e.name(), e.name(), e.name()}
			var busy []*call[struct{}]
			for i := range 12 {
				busy = append(busy, begin(e, "Acquire or Release", func(ctx context.Context) (none struct{}, err error) {
					for err == nil {
						var l *lockport.Lock
						if l, err = c.Acquire(ctx, names[i%3]); err == nil && i > 1 { // the first two are held and renewed until Close
							err = l.Release(ctx)
						}
					}
					if errors.Is(err, lockport.ErrClosed) {
						err = nil
					}
					return none, err
				}))
			}
			e.sleep(20 * time.Millisecond)
			closed := begin(e, "Close", func(context.Context) (struct{}, error) { return struct{}{}, c.Close() })
			_, err := closed.ended(soon, "the server is healthy")
			e.check(err, "Close")
			for _, w := range busy {
				w.granted(soon+endTime, "the client was closed, so its calls return ErrClosed")
			}
			p := e.party()
			for _, name := range names {
				p.wantFree(name, "Close of the client returned nil")
			}
		}
	}),
	full("silent-server", "P8 no leaks: on a silent server Close returns, with an error", func(e *Env) {
		c := e.client()
		e.acquire(c, e.name())
		e.acquire(e.client(), e.name())
		e.freeze()
		pending := e.begin(c, e.name())
		closed := begin(e, "Close", func(context.Context) (struct{}, error) { return struct{}{}, c.Close() })
		e.endsClosed(pending, soon)
		_, err := closed.ended(4*callTime, "the server is silent")
		e.require(err != nil || e.caps.Ends != driver.EndsTTL, "Close returned nil, although it could not release its locks")
	}, "Freeze").within(time.Minute),
)

// endsClosed checks that an Acquire whose client was closed returns ErrClosed.
func (e *Env) endsClosed(w *call[*lockport.Lock], limit time.Duration) {
	e.is(errOf(w.ended(limit, "the client was closed")), "Close must end a waiting Acquire with ErrClosed; it returned", lockport.ErrClosed)
}
