package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// crowds has crowds race for all names, each in its own process, or all in this one if the locks are local.
func (e *Env) crowds(o SoakOptions, ttl time.Duration, report *SoakReport) {
	run := (*race).processes
	if e.cfg.Local {
		run = (*race).clients
	}
	e.race(crowd{SoakOptions: o, TTL: ttl}, run, report)
}

// contend makes a case in which clients, each with goroutines of its own, acquire one name repeatedly. run starts them.
func contend(clients, goroutines int, all crowd, run func(*race)) func(*Env) {
	return func(e *Env) {
		all.SoakOptions = SoakOptions{Processes: clients, Goroutines: goroutines, Patience: 30 * time.Second}
		all.TTL = e.ttl
		e.race(all, run, new(SoakReport))
	}
}

// race is a competition of crowds for names.
type race struct {
	e        *Env
	register *register
	all      crowd // what all crowds have in common
	report   *SoakReport
}

// race has run start crowds, and then checks that all names can be acquired. Workers map the register from a file; if they cannot, it
// is in this process's memory, and has no path.
func (e *Env) race(all crowd, run func(*race), report *SoakReport) {
	dir, err := os.MkdirTemp("", "lockport-conformance-")
	e.check(err, "a folder for the register")
	e.after(func() { _ = os.RemoveAll(dir) })
	all.Prefix, all.Register = e.name()+"-", filepath.Join(dir, registerFile)
	reg, unmap, err := mapRegister(all.Register)
	if err != nil {
		reg, unmap, all.Register = new(register), func() {}, ""
	}
	e.after(unmap)
	e.after(func() { report.SoakFigures = reg.SoakFigures })
	run(&race{e, reg, all, report})
	names, c := 1, e.client(lockport.TTL(all.TTL))
	if all.Rounds == 0 {
		names = crowdNames
	}
	for i := range names {
		limit := e.takeover() + 2*callTime + all.TTL
		l := e.acquireWithin(c, all.Prefix+strconv.Itoa(i), limit, "all crowds released their locks")
		e.rises(reg.cells[i].token.Load(), token(l))
		e.release(l)
	}
}

// crowd returns the crowd of a member. Of the crowds that acquire in every way, every third has no hand-off.
func (r *race) crowd(member int) *crowd {
	c := r.all
	c.Member = member
	c.NoHandOff = c.NoHandOff || c.Rounds == 0 && member%3 == 0
	return &c
}

// clients runs all crowds in this process, each with its own client.
func (r *race) clients() {
	parties := make([]*party, r.all.Processes)
	for i := range parties {
		parties[i] = r.e.party()
	}
	r.e.storm(len(parties), func(ctx context.Context, i int) error { return r.crowd(i+1).compete(ctx, parties[i], r.register) })
}

// processes runs each crowd in its own process. Every KillEvery it kills one and starts another.
func (r *race) processes() {
	why := missing(r.e.cfg, "processes")
	r.e.applies(why == "", "%s", why)
	r.e.applies(r.all.Register != "", "processes cannot share memory here")
	type result struct {
		member int
		err    error
	}
	results := make(chan result, maxMembers)
	over := time.Now().Add(r.all.For)
	var started []*process // member i is started[i-1]
	start := func() {
		p := r.e.process()
		started = append(started, p)
		c := r.crowd(len(started))
		c.For = time.Until(over)
		reply := p.Send(order{Op: opCrowd, Crowd: c})
		go func() {
			a, err := p.await(reply, max(c.For, 0)+2*c.Patience)
			results <- result{c.Member, cmp.Or(err, a.err())}
		}()
	}
	for range r.all.Processes {
		start()
	}
	kill := time.Tick(r.all.KillEvery) // nil: never
	for left := r.all.Processes; left > 0; {
		select {
		case <-kill:
			if time.Until(over) < r.all.TTL || len(started) == maxMembers-1 {
				continue // waiters behind a killed process would only delay the end
			}
			oldest := started[r.report.Killed]
			r.report.Killed++
			r.register.gone[r.report.Killed].Store(true)
			oldest.Kill()
			start()
		case res := <-results:
			if r.register.gone[res.member].Load() {
				continue
			}
			left--
			r.e.check(res.err, "process %d", res.member)
		}
	}
}

// crowd runs a worker's crowd.
func (p *peer) crowd(ctx context.Context, c *crowd) error {
	reg, unmap, err := mapRegister(c.Register)
	if err != nil {
		return err
	}
	defer unmap()
	b, err := p.open()
	if err != nil {
		return err
	}
	label := c.Prefix + strconv.Itoa(c.Member)
	pprof.Do(ctx, pprof.Labels(goroutineLabel, label), func(ctx context.Context) { err = c.compete(ctx, b, reg) })
	if err != nil {
		return err
	}
	return noGoroutines(ctx, label, leakGrace)
}

// crowd is one process's part in a race: its goroutines share a client, and compete with the crowds of other processes.
type crowd struct {
	SoakOptions
	Member    int           // number of the process, from 1
	Rounds    int           // holds of one name by each goroutine; 0: acquire any name, in every way
	Hold      time.Duration // longest hold, with Rounds
	TTL       time.Duration
	NoHandOff bool
	Prefix    string // of the names
	Register  string // file of the register

	client *lockport.Client
	*holders
}

// lateness is how long after the end of its context a call in a crowd may return. Its goroutines wait for the processor too.
const lateness = 5 * time.Second

// slowAnswer is how long the least patient backend, Redlock, waits for a reply if the TTL is long. Then the server is unavailable.
const slowAnswer = time.Second

// compete takes part in a race as a client of b, and closes it.
func (c *crowd) compete(ctx context.Context, b driver.Backend, reg *register) (err error) {
	c.holders = &holders{register: reg, member: int64(c.Member)}
	opts := []lockport.Option{lockport.TTL(c.TTL), lockport.Logger(nil), lockport.Label("conformance"),
		lockport.Observe(lockport.Hooks{AcquireDone: func(_ context.Context, a lockport.AcquireEvent) {
			if a.HandedOff {
				atomic.AddInt64(&reg.HandedOff, 1)
			}
		}})}
	if c.NoHandOff {
		opts = append(opts, lockport.WithoutHandOff())
	}
	if c.client, err = lockport.New(b, opts...); err != nil {
		return err
	}
	err = c.run(ctx)
	if closed := c.client.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("all locks were released, yet Close returned: %w", closed))
	}
	return err
}

// run runs the goroutines. It returns nil when time is over and no goroutine waits any more, or else the first broken rule.
func (c *crowd) run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	over := time.Now().Add(c.For)
	var all sync.WaitGroup
	for range c.Goroutines {
		all.Go(func() {
			for round := 0; round < c.Rounds || c.Rounds == 0 && time.Now().Before(over); round++ {
				if err := c.turn(ctx); err != nil {
					fail(err) // the first one counts
				}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// pick picks a name: one of three for nearly half of the calls, one of sixteen for a quarter. A crowd without hand-off picks
// any name; otherwise all its goroutines would end up waiting for the few popular ones.
func (c *crowd) pick() int {
	switch n := rand.IntN(100); {
	case c.NoHandOff:
	case n < 30:
		return 0
	case n < 45:
		return 1 + rand.IntN(2)
	case n < 70:
		return rand.IntN(16)
	}
	return rand.IntN(crowdNames)
}

// longCrowd is how long a crowd lasts that has holds which need renewal.
const longCrowd = 10 * time.Second

// plan is how a goroutine acquires a name, and how long it holds it.
type plan struct {
	name     int
	lasts    time.Duration // longest hold
	opts     []lockport.AcquireOption
	once     bool          // by TryAcquire
	limit    time.Duration // when the context ends: Patience, or before
	canceled bool          // at the limit, instead of by a deadline
}

// plan makes a random plan.
func (c *crowd) plan() plan {
	if c.Rounds > 0 {
		return plan{lasts: c.Hold, limit: c.Patience}
	}
	p := plan{name: c.pick(), limit: c.Patience}
	switch n := rand.IntN(1000); {
	case n < 30:
		p.lasts = 200 * time.Microsecond
	case n < 34:
		p.lasts = 5 * time.Millisecond
	case n < 35 && p.name >= 16 && c.For >= longCrowd:
		p.lasts = 2 * c.TTL // it is renewed
	}
	switch n := rand.IntN(1000); {
	case n < 3:
		p.opts = append(p.opts, lockport.MinHold(rand.N(5*time.Millisecond)))
	case n < 8 && c.client.Capabilities().FixedTTL == 0:
		p.opts = append(p.opts, lockport.TTL(c.TTL+c.TTL/2)) // another TTL: the claim cannot be shared with others
	}
	switch n := rand.IntN(100); {
	case n < 10:
		p.once = true
	case n < 40: // 1 µs is as likely as 100 ms
		p.limit, p.canceled = time.Duration(math.Pow(10, 3+5*rand.Float64())), n%2 == 0
	}
	return p
}

// acquire acquires a lock as planned.
func (c *crowd) acquire(ctx context.Context, p plan) (*lockport.Lock, error) {
	patience, acquire := p.limit, c.client.Acquire
	if p.canceled {
		patience = c.Patience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if p.canceled {
		defer time.AfterFunc(p.limit, cancel).Stop()
	}
	if p.once {
		acquire = c.client.TryAcquire
	}
	return acquire(ctx, c.Prefix+strconv.Itoa(p.name), p.opts...)
}

// turn carries out one plan.
func (c *crowd) turn(ctx context.Context) error {
	p, start := c.plan(), time.Now()
	lock, err := c.acquire(ctx, p)
	took := time.Since(start)
	if ctx.Err() != nil { // another goroutine has failed
		if lock != nil {
			_ = lock.Release(ctx)
		}
		return nil
	}
	late := took - p.limit
	switch {
	case late > lateness:
		return fmt.Errorf("P6 cancellation: a call returned %v after its context ended", late)
	case err == nil:
		raise(&c.Longest, took)
		return c.hold(context.Background(), p.name, lock, p.lasts)
	case p.once && errors.Is(err, lockport.ErrHeld):
		atomic.AddInt64(&c.InVain, 1)
		return nil
	case p.limit < c.Patience && late >= 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		raise(&c.Latest, late)
		atomic.AddInt64(&c.GaveUp, 1)
		return nil
	case errors.Is(err, lockport.ErrUnavailable) && took > min(slowAnswer, c.TTL/2) && took < c.Patience:
		atomic.AddInt64(&c.TooSlow, 1)
		return nil
	case took >= c.Patience && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("P7 liveness: a waiter did not get name %d within %v, while others did: %w", p.name, c.Patience, err)
	}
	return fmt.Errorf("an acquisition failed on a healthy server: %w", err)
}
