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
	quick("holding", "P8 no leaks, P10 errors: Close ends every hold with ErrClosed, not with ErrLost, and frees its name; later calls return ErrClosed", func(e *Env) {
		a, b := e.client(), e.client()
		locks := e.acquireMany(a, 20)
		e.check(a.Close(), "Close")
		e.check(a.Close(), "a second Close")
		e.is(errOf(a.Acquire(e.ctx, e.name())), "Acquire of a closed client must return ErrClosed; it returned", lockport.ErrClosed)
		e.is(errOf(a.TryAcquire(e.ctx, e.name())), "TryAcquire of a closed client must return ErrClosed; it returned", lockport.ErrClosed)
		for _, l := range locks {
			err := l.Err()
			e.require(errors.Is(err, lockport.ErrClosed) && !errors.Is(err, lockport.ErrLost), "after Close Err must be ErrClosed alone; it is: %w", err)
			e.notLost(l, "Close")
			e.check(l.Release(e.ctx), "Release after Close must return nil; it returned")
			e.release(e.acquireWithin(b, l.Name(), soon, "the holder's client was closed"))
		}
	}),
	quick("busy", "P8 no leaks: Close ends waits, acquisitions, renewals and releases that are under way, and their claims", func(e *Env) {
		other := e.client()
		for range 5 {
			c, l := e.client(), e.acquire(other, e.name())
			names := []string{l.Name(), e.name(), e.name(), e.name()} // the first one is held by another client
			var busy []*call[struct{}]
			for i := range 16 {
				busy = append(busy, e.start("Acquire or Release", func(ctx context.Context) (err error) {
					for err == nil {
						var l *lockport.Lock
						if l, err = c.Acquire(ctx, names[i%4]); err == nil && i > 2 { // two names are held and renewed until Close
							err = l.Release(ctx)
						}
					}
					if errors.Is(err, lockport.ErrClosed) {
						err = nil
					}
					return err
				}))
			}
			e.sleep(20 * time.Millisecond)
			closed := e.start("Close", func(context.Context) error { return c.Close() })
			closed.granted(soon, "the server is healthy")
			for _, w := range busy {
				w.granted(soon+endTime, "the client was closed, so its calls return ErrClosed")
			}
			e.release(l)
			p := e.party()
			for _, name := range names {
				p.wantFree(name, "Close of the client returned nil")
			}
		}
		e.leftovers("everything was released or closed")
	}),
	quick("min-hold", "contract: Close waits until MinHold has passed", func(e *Env) {
		const least = 500 * time.Millisecond
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(least))
		e.release(l)
		e.check(a.Close(), "Close")
		took := time.Since(start)
		e.require(took >= least, "Close returned after %v, but MinHold is %v", took, least)
		e.release(e.acquireWithin(b, l.Name(), soon, "Close has returned"))
	}),
	full("silent-server", "P8 no leaks: on a silent server Close returns, with an error", func(e *Env) {
		c := e.client()
		e.acquire(c, e.name())
		e.acquire(e.client(), e.name())
		e.freeze()
		pending := e.begin(c, e.name())
		closed := e.start("Close", func(context.Context) error { return c.Close() })
		e.is(errOf(pending.ended(soon, "the client was closed")), "Close must end a waiting Acquire with ErrClosed; it returned", lockport.ErrClosed)
		_, err := closed.ended(4*callTime, "the server is silent")
		e.require(err != nil || e.caps.Ends != driver.EndsTTL, "Close returned nil, although it could not release its locks, "+orNoFault)
	}, "Freeze").within(time.Minute),
)
