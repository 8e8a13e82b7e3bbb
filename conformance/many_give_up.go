package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// amongMany has many wait for a name, some of whom give up at moments around that at which it is handed on, to them or to others: those who stay get it, one after
// the other, and then other does.
func amongMany(e *Env, clients ...*lockport.Client) {
	const waiters = 10
	other := e.party()
	name := e.name()
	var b beliefs
	for round := range 25 {
		holder := e.acquire(clients[0], name)
		if err := b.enter(holder); err != nil {
			e.must(err)
			return
		}
		results := make(chan error, waiters)
		var all []*acquiring
		stays := make([]bool, waiters)
		for i := range waiters {
			w := e.begin(clients[i%len(clients)], name)
			all, stays[i] = append(all, w), rand.IntN(3) == 0
			go func() {
				<-w.over
				switch {
				case w.err == nil:
					results <- b.hold(e.ctx, w.lock, 100*time.Microsecond)
				case stays[i]:
					results <- fmt.Errorf("who stays in the queue did not get the name but: %w", w.err)
				case !errors.Is(w.err, context.Canceled):
					results <- fmt.Errorf("a cancelled Acquire returned: %w", w.err)
				default:
					results <- nil
				}
			}()
		}
		all[waiters-1].notYet(rand.N(4*time.Millisecond), "the name is held")
		for i, w := range all {
			if !stays[i] { // before the name is released, at the moment, or while it goes through the queue
				time.AfterFunc(rand.N(time.Duration(1+round%3)*400*time.Microsecond), w.cancel)
			}
		}
		<-time.After(rand.N(200 * time.Microsecond))
		b.leave(holder)
		e.release(holder)
		late := time.After(e.takeover() + soon)
		for i := range waiters {
			select {
			case err := <-results:
				e.check(err, "around a hand-off")
			case <-late:
				e.failf("the name was released, and those who were handed it have given up or released it, but %d of %d still wait", waiters-i, waiters)
			}
		}
		next := other.takes(name, soon, "everybody has released the name or was cancelled")
		e.rises(b.last.Load()/driver.TokensPerGrant, next.Grant().Token)
		other.release(next)
	}
}
