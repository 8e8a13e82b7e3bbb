package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/lockport/lockport"
)

// crowd is one process's part in a race of many goroutines for many names, in all the ways in which a lock can be asked for: its client hands
// names on inside, gives them up at random moments, and competes with the crowds of other processes.
type crowd struct {
	Member     int           `json:"member"` // the number of the process, from 1
	Goroutines int           `json:"goroutines"`
	For        time.Duration `json:"for"`
	TTL        time.Duration `json:"ttl"`
	Patience   time.Duration `json:"patience"` // within which everybody must get a name
	Prefix     string        `json:"prefix"`   // of the names
	Register   string        `json:"register"` // the file of the register

	client   *lockport.Client
	register *register
	counted  [crowdNames]int // how often each name was held: only the lock guards it, as the race detector sees
}

// lateness is how long after the end of its context a call may return in a crowd, whose goroutines wait for the processor too.
const lateness = 5 * time.Second

// slowAnswer is how long the backend that is least patient, Redlock, gives one request, if the TTL is long: a machine that is busier than that is
// unavailable.
const slowAnswer = time.Second

// options are those of the client of a crowd. Of three crowds one gives every hold back to the server.
func (c *crowd) options() []lockport.Option {
	opts := []lockport.Option{lockport.TTL(c.TTL), lockport.Observe(lockport.Hooks{AcquireDone: func(_ context.Context, a lockport.Acquired) {
		if a.HandedOff {
			c.register.handedOff.Add(1)
		}
	}})}
	if c.handsNothingOn() {
		opts = append(opts, lockport.WithoutHandOff())
	}
	return opts
}

func (c *crowd) handsNothingOn() bool { return c.Member%3 == 0 }

// run lets the crowd in, and returns when its time is over and everybody has what he waited for, or with the first rule that was broken.
func (c *crowd) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	over := time.Now().Add(c.For)
	var all sync.WaitGroup
	for g := range c.Goroutines {
		id := int64(c.Member)<<memberBits + int64(g) + 1 // of its holds, of which it has one at a time
		all.Go(func() {
			for time.Now().Before(over) && ctx.Err() == nil {
				if err := c.turn(ctx, id); err != nil {
					fail(err) // the first one counts
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// pick picks a name: for nearly half of the calls one of three, for a quarter one of sixteen. Who hands nothing on picks any: its turns at a name that all want
// are so much rarer than those of the others that its goroutines would all end up waiting there.
func (c *crowd) pick() int {
	switch n := rand.IntN(100); {
	case c.handsNothingOn():
	case n < 30:
		return 0
	case n < 45:
		return 1 + rand.IntN(2)
	case n < 70:
		return rand.IntN(16)
	}
	return rand.IntN(crowdNames)
}

// moment is a short time: a microsecond as likely as a hundred milliseconds.
func moment() time.Duration {
	return time.Duration(math.Pow(10, 3+5*rand.Float64()))
}

// crowdMaxHold is the MaxHold of a few holds, which are no longer inside when it ends them. Crowds of at least longCrowd have such, and holds that are renewed.
const crowdMaxHold, longCrowd = 2 * time.Second, 10 * time.Second

// hold is what is done with a lock of a crowd.
type hold struct {
	id    int64
	name  int
	lasts time.Duration
	ended bool // by MaxHold, which it then waits for
	opts  []lockport.AcquireOption
}

// plan plans a hold.
func (c *crowd) plan(id int64) hold {
	h := hold{id: id, name: c.pick()}
	switch n := rand.IntN(1000); {
	case n < 30:
		h.lasts = rand.N(200 * time.Microsecond)
	case n < 34:
		h.lasts = rand.N(5 * time.Millisecond)
	case n < 35 && h.name >= 16 && c.For >= longCrowd:
		h.lasts = c.TTL/2 + rand.N(c.TTL/2) // it is renewed
	}
	switch n := rand.IntN(1000); {
	case n < 3:
		h.opts = append(h.opts, lockport.MinHold(rand.N(5*time.Millisecond)))
	case n < 4 && h.lasts == 0 && h.name >= 16 && c.For >= longCrowd:
		h.opts, h.ended = append(h.opts, lockport.MaxHold(crowdMaxHold)), true
	case n < 8 && c.client.Capabilities().FixedTTL == 0:
		h.opts = append(h.opts, lockport.TTL(c.TTL+c.TTL/2)) // no part of anybody else's claim
	}
	return h
}

// turn asks for a name once.
func (c *crowd) turn(ctx context.Context, id int64) error {
	h := c.plan(id)
	name := c.Prefix + strconv.Itoa(h.name)
	patient, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	start := time.Now()
	limit, limited := start.Add(c.Patience), true
	var lock *lockport.Lock
	var err error
	switch n := rand.IntN(100); {
	case n < 10:
		lock, err = c.client.TryAcquire(patient, name, h.opts...)
		if errors.Is(err, lockport.ErrHeld) {
			c.register.inVain.Add(1)
			return nil
		}
	case n < 25:
		limit = start.Add(moment())
		short, cancel := context.WithDeadline(patient, limit)
		defer cancel()
		lock, err = c.client.Acquire(short, name, h.opts...)
	case n < 40:
		limit = start.Add(moment())
		short, cancel := context.WithCancel(patient)
		defer cancel()
		defer time.AfterFunc(time.Until(limit), cancel).Stop()
		lock, err = c.client.Acquire(short, name, h.opts...)
	case n < 45:
		limited = false
		err = lockport.Do(patient, c.client, name, func(_ context.Context, l *lockport.Lock) error {
			h.ended = false
			most(&c.register.longest, time.Since(start))
			return c.keep(h, l)
		}, h.opts...)
		if err == nil {
			return nil
		}
	default:
		limited = false
		lock, err = c.client.Acquire(patient, name, h.opts...)
	}
	if ctx.Err() != nil { // another goroutine has failed
		if lock != nil {
			_ = lock.Release(ctx)
		}
		return nil
	}
	if late := time.Since(limit); late > lateness {
		return fmt.Errorf("P6 cancellation: a call returned %v after its context had ended", late)
	} else if limited && err != nil {
		most(&c.register.latest, late)
	}
	switch {
	case err == nil:
		most(&c.register.longest, time.Since(start))
		return c.use(h, lock)
	case limited && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		c.register.gaveUp.Add(1)
		return nil
	case errors.Is(err, lockport.ErrUnavailable) && time.Since(start) > min(slowAnswer, c.TTL/2) && time.Since(start) < c.Patience:
		c.register.tooSlow.Add(1)
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("P7 liveness: somebody has waited for name %d for %v, while others got it: %w", h.name, c.Patience, err)
	}
	return fmt.Errorf("an acquisition failed on a server that is well: %w", err)
}

// use holds a lock and releases it.
func (c *crowd) use(h hold, l *lockport.Lock) error {
	if err := c.keep(h, l); err != nil {
		return err
	}
	ctx := context.Background()
	if h.ended {
		select {
		case <-l.Lost():
		case <-time.After(crowdMaxHold + lateness):
		}
		if err := l.Err(); !errors.Is(err, lockport.ErrMaxHold) {
			return fmt.Errorf("MaxHold has passed, but Err of the lock says: %w", orNone(err))
		}
		if err := l.Release(ctx); !errors.Is(err, lockport.ErrMaxHold) {
			return fmt.Errorf("the release of a lock that MaxHold ended returned: %w", orNone(err))
		}
		return nil
	}
	if err := l.Release(ctx); err != nil {
		return fmt.Errorf("the release of a lock that is held failed, on a server that is well: %w", err)
	}
	if l.Valid() {
		return errors.New("P4 ownership: a lock is valid still after its Release has returned")
	}
	return nil
}

// keep is inside for as long as the hold lasts.
func (c *crowd) keep(h hold, l *lockport.Lock) error {
	if err := c.register.enter(h.name, c.Member, h.id, token(l)); err != nil {
		return err
	}
	c.counted[h.name]++
	if h.lasts > 0 {
		time.Sleep(h.lasts)
	}
	lost := l.Err()
	if err := c.register.leave(h.name, h.id); err != nil {
		return err
	}
	if lost != nil {
		return fmt.Errorf("a hold was lost on a server that is well: %w", lost)
	}
	return nil
}
