package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleShared = "P1 exclusion: readers hold a name together, and never beside a writer"

// sharedCases are about readers and writers, where Capabilities.Shared is stated.
var sharedCases = stated("shared", func(c driver.Capabilities) bool { return c.Shared }, "Capabilities.Shared",
	quick("readers-and-writers", ruleShared, func(e *Env) {
		a, b, name := e.two()
		first, second := a.claimOf(a.reading(name)), b.claimOf(b.reading(name))
		again := a.claimOf(a.reading(name))
		for _, reader := range []driver.Lease{first, second, again} {
			e.party().finds(name, "a reader has the name")
			a.release(reader)
		}
		writer := b.claim(name)
		for _, p := range []*party{a, b} {
			p.findsAs(p.reading(name), "a writer has the name")
		}
		b.release(writer)
		a.release(a.claimOf(a.reading(name)))
		a.free(name, "all have released the name")
	}),
	quick("many-at-once", "P1 exclusion: of readers and writers who claim a name at once, either one writer is granted it or readers are", func(e *Env) {
		parties := []*party{e.party(), e.party(), e.party()}
		for range 10 {
			name := e.name()
			var readers, writers, unknown atomic.Int64
			e.storm(12, func(ctx context.Context, i int) error {
				p := parties[i%len(parties)]
				req, granted := p.reading(name), &readers
				if i%4 == 0 {
					req, granted = p.request(name), &writers
				}
				return p.counts(ctx, req, granted, &unknown)
			})
			r, w := readers.Load(), writers.Load()
			e.require(w == 0 || w == 1 && r == 0, "of 12 claims at once %d readers and %d writers were granted", r, w)
			e.require(r+w+unknown.Load() > 0, "of 12 claims at once none was granted")
		}
	}),
	quick("granted-twice", "contract: a reader's claim that is made again with the same owner is granted once", func(e *Env) {
		a, b, name := e.two()
		req := a.reading(name)
		lease := a.claimOf(req)
		if again, err := a.try(req); err == nil {
			lease = again
		}
		a.release(lease)
		b.free(name, "the reader claimed twice with one owner, and has released the name")
	}),
	quick("abandoned", "P6 cancellation: a reader's claim that was abandoned, granted or waiting, keeps nobody out", func(e *Env) {
		a, b, name := e.two()
		req := a.reading(name)
		a.claimOf(req)
		a.abandon(req)
		writer := b.claim(name)
		req = a.reading(name)
		req.Queue = e.caps.Queue
		a.findsAs(req, "a writer has the name")
		a.abandon(req)
		b.release(writer)
		b.free(name, "the reader that waited was abandoned")
	}),
	quick("tokens", "P2 fencing: a writer's token is greater than those of all readers and writers before it", func(e *Env) {
		a, b, name := e.two()
		var last uint64
		for i := range 6 {
			p := []*party{a, b}[i%2]
			reader := p.claimOf(p.reading(name))
			p.release(reader)
			writer := p.claim(name)
			e.rises(last, reader.Grant().Token)
			e.rises(reader.Grant().Token, writer.Grant().Token)
			last = writer.Grant().Token
			p.release(writer)
		}
	}),
	quick("writer-wakes", "P7 liveness: a writer that waits gets the name when the last reader has released it", func(e *Env) {
		a, b, name := e.client(), e.client(), e.name()
		for range 5 {
			here, there := e.acquire(a, name, lockport.Shared()), e.acquire(b, name, lockport.Shared())
			writer := e.begin(e.client(), name)
			writer.notYet(20*time.Millisecond, "readers have the name")
			e.release(here)
			writer.notYet(20*time.Millisecond, "a reader has the name")
			e.release(there)
			e.release(writer.granted(soon, "the last reader has released the name"))
		}
	}),
	quick("readers-wake", "P7 liveness: readers that wait get the name together when the writer has released it", func(e *Env) {
		writer, name := e.client(), e.name()
		clients := []*lockport.Client{e.client(), e.client()}
		for range 5 {
			held := e.acquire(writer, name)
			var readers []*call[*lockport.Lock]
			for i := range 6 {
				readers = append(readers, e.begin(clients[i%2], name, lockport.Shared()))
			}
			readers[0].notYet(20*time.Millisecond, "a writer has the name")
			e.release(held)
			var locks []*lockport.Lock
			for _, r := range readers {
				locks = append(locks, r.granted(soon, "the writer has released the name, and readers do not exclude each other"))
			}
			for _, l := range locks {
				e.release(l)
			}
		}
	}),
	full("dead-reader", "P5 crash: a dead reader's claim ends in the stated time, and that of others stays", func(e *Env) {
		a, b, name := e.two()
		a.claimOf(a.reading(name))
		reader := b.claimOf(b.reading(name))
		stop := b.keepAlive(reader)
		e.check(a.Close(), "Close")
		c := e.party()
		e.during(e.takeover(), e.ttl/10, func() { c.finds(name, "a reader lives") })
		stop()
		b.release(reader)
		c.free(name, "one reader has died, and the other has released the name")
	}),
	full("silent-reader", "P3a silence: a reader's claim that is not renewed ends with its TTL, and not before its validity", func(e *Env) {
		a, b, name := e.two()
		first := a.claimOf(a.reading(name))
		e.sleep(e.ttl / 3)
		last := b.claimOf(b.reading(name)) // of which the earlier one's end says nothing
		e.require(first.Grant().Until.IsZero() || first.Grant().Until.Before(last.Grant().Until), "the later claim is not valid for longer")
		c := e.party() // a client's own claims may keep what its earlier ones share with them
		c.release(c.afterExpiry(last, last.Grant().Until, name))
	}),
	full("removed", "P3b removal: when the server forgot the readers, each is told in the stated time", func(e *Env) {
		a, b, name := e.two()
		here, there := a.watchedAs(a.reading(name)), b.watchedAs(b.reading(name))
		e.remove(name)
		here.within("the lock was removed at the server")
		there.within("the lock was removed at the server")
		writer := e.party().takes(name, e.takeover(), "the server forgot the readers")
		here.isLost()
		there.isLost()
		e.party().findsAs(a.reading(name), fmt.Sprintf("a writer has the name (token %d)", writer.Grant().Token))
	}, "Remove"),
	full("writer-is-not-starved", "P7 liveness: readers that come and go, overlapping, do not keep a writer out", func(e *Env) {
		e.servedBeside([]lockport.AcquireOption{lockport.Shared()}, nil)
	}),
	full("readers-are-not-starved", "P7 liveness: writers that come and go do not keep a reader out", func(e *Env) {
		e.servedBeside(nil, []lockport.AcquireOption{lockport.Shared()})
	}),
	full("clients", ruleShared+" (three clients with six goroutines each, of which one writes)", func(e *Env) {
		var readers, writers atomic.Int64
		e.mill(func(i int) ([]lockport.AcquireOption, func() error, func()) {
			if i%6 > 0 {
				return []lockport.AcquireOption{lockport.Shared()}, func() error {
					readers.Add(1)
					return beside("a reader", 0, writers.Load())
				}, func() { readers.Add(-1) }
			}
			return nil, func() error {
				return beside("a writer", readers.Load(), writers.Add(1)-1)
			}, func() { writers.Add(-1) }
		})
	}),
)

// beside is what one saw that acquired a name beside others that exclude it.
func beside(who string, readers, writers int64) error {
	if readers > 0 || writers > 0 {
		return fmt.Errorf("%s has the name beside %d readers and %d writers", who, readers, writers)
	}
	return nil
}

// stated are the cases of a group that are not run where the backend does not state what they are about.
func stated(name string, is func(driver.Capabilities) bool, what string, cases ...Case) []Case {
	for i, c := range cases {
		cases[i].Run = func(ctx context.Context, e *Env) error {
			if !is(e.caps) {
				e.notRun("%s is not stated", what)
			}
			return c.Run(ctx, e)
		}
	}
	return group(name, cases...)
}

// reading makes a reader's request.
func (p *party) reading(name string) driver.Request {
	req := p.request(name)
	req.Shared = true
	return req
}

// findsAs is finds for a request of the case's own.
func (p *party) findsAs(req driver.Request, why string) {
	lease, err := p.try(req)
	p.e.refused(lease, err, why)
}

// counts makes a claim among many, and counts it in granted, or in unknown, if it is.
func (p *party) counts(ctx context.Context, req driver.Request, granted, unknown *atomic.Int64) error {
	_, err := p.tryIn(ctx, req)
	switch class(err) {
	case nil:
		granted.Add(1)
	case driver.ErrUnknown: // a busy machine: it may be one
		p.abandon(req)
		unknown.Add(1)
	case driver.ErrHeld:
	default:
		return fmt.Errorf("a claim was neither granted nor ErrHeld: %w", err)
	}
	return nil
}

// servedBeside has two clients acquire a name with the options of many, again and again and overlapping, and checks that a third gets it with those of one.
func (e *Env) servedBeside(many, one []lockport.AcquireOption) {
	name := e.name()
	var holds atomic.Int64
	for i := range 8 {
		c := e.client()
		begin(e, "Acquire", func(ctx context.Context) (none struct{}, _ error) {
			for {
				l, err := c.Acquire(ctx, name, many...)
				if err != nil {
					return none, err
				}
				holds.Add(1)
				<-time.After(time.Duration(2+i) * time.Millisecond)
				_ = l.Release(e.ctx)
			}
		})
	}
	c := e.client()
	for range 3 {
		before := holds.Load()
		e.eventually(e.takeover(), func() bool { return holds.Load() >= before+8 }, "the others come and go")
		e.release(e.acquireWithin(c, name, e.takeover(), "the others hold the name for moments only", one...))
	}
}

// mill has goroutines of three clients acquire a name again and again, with what as says of each: its options, what it checks when it has the name, and what it does
// before it releases it. Every third attempt gives up soon.
func (e *Env) mill(as func(i int) (opts []lockport.AcquireOption, enter func() error, leave func())) {
	clients, name := []*lockport.Client{e.client(), e.client(), e.client()}, e.name()
	var holds atomic.Int64
	e.storm(18, func(ctx context.Context, i int) error {
		opts, enter, leave := as(i / 3)
		for round := range 20 {
			patience := callTime + e.takeover()
			if round%3 == 2 {
				patience = 2 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(ctx, patience)
			l, err := clients[i%3].Acquire(ctx, name, opts...)
			cancel()
			if err != nil {
				if patience > callTime {
					return err
				}
				continue
			}
			err = enter()
			<-time.After(200 * time.Microsecond)
			leave()
			if err == nil {
				err = l.Release(e.ctx)
			}
			if err != nil {
				return err
			}
			holds.Add(1)
		}
		return nil
	})
	e.require(holds.Load() >= 18*13, "of %d acquisitions with patience %d succeeded", 18*14, holds.Load())
}
