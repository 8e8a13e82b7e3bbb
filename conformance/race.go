package conformance

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/lockport/lockport"
)

// crowds has crowds race for names, each in its own process, or all in this one if the locks are local.
func (e *Env) crowds(o SoakOptions, ttl time.Duration, report *SoakReport) {
	r := e.race(crowd{SoakOptions: o, TTL: ttl})
	e.after(func() { report.Killed, report.SoakFigures = r.killed, r.register.SoakFigures })
	if e.cfg.Local {
		r.clients()
	} else {
		r.processes()
	}
	r.allFree(crowdNames)
}

// contend makes a case in which clients, each with goroutines of its own, acquire one name repeatedly. run starts them.
func contend(clients, goroutines int, all crowd, run func(*race)) func(*Env) {
	return func(e *Env) {
		all.SoakOptions = SoakOptions{Processes: clients, Goroutines: goroutines, Patience: 30 * time.Second}
		all.TTL = e.ttl
		r := e.race(all)
		run(r)
		r.allFree(1)
	}
}

// race is a competition of crowds for names.
type race struct {
	e        *Env
	register *register
	all      crowd // what all crowds have in common
	killed   int
}

// race makes a race. Workers map its register from a file; if they cannot, it is in this process's memory, and has no path.
func (e *Env) race(all crowd) *race {
	dir, err := os.MkdirTemp("", "lockport-conformance-")
	e.check(err, "a folder for the register")
	e.after(func() { _ = os.RemoveAll(dir) })
	all.Prefix, all.Register = e.name()+"-", filepath.Join(dir, registerFile)
	reg, unmap, err := mapRegister(all.Register)
	if err != nil {
		reg, unmap, all.Register = new(register), func() {}, ""
	}
	e.after(unmap)
	return &race{e: e, register: reg, all: all}
}

// crowd returns the crowd of a member. Of the crowds that acquire in every way, every third has no hand-off.
func (r *race) crowd(member int) *crowd {
	c := r.all
	c.Member = member
	c.NoHandOff = c.NoHandOff || c.Rounds == 0 && member%3 == 0
	return &c
}

// allFree checks that the first n names, which nobody holds any more, can be acquired.
func (r *race) allFree(n int) {
	e := r.e
	c := e.client(lockport.TTL(r.all.TTL))
	for i := range n {
		limit := e.takeover() + 2*callTime + r.all.TTL
		l := e.acquireWithin(c, r.all.Prefix+strconv.Itoa(i), limit, "all crowds released their locks")
		e.rises(r.register.cells[i].token.Load(), token(l))
		e.release(l)
	}
}

// clients runs all crowds in this process, each with its own client.
func (r *race) clients() {
	parties := make([]*party, r.all.Processes)
	for i := range parties {
		parties[i] = r.e.party()
	}
	r.e.storm(len(parties), func(ctx context.Context, i int) error { return r.crowd(i+1).compete(ctx, parties[i], r.register) })
}

// storm calls f in n goroutines, with the goroutine's number, and waits for all. An error ends the context of all, and the case.
func (e *Env) storm(n int, f func(ctx context.Context, i int) error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer func() { // after catch
				if e.failure() != nil {
					cancel()
				}
			}()
			defer e.catch()
			if err := f(ctx, i); err != nil {
				e.fail(err)
			}
		})
	}
	all.Wait()
	e.stopIfFailed()
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
	members, running := 0, make([]*process, r.all.Processes)
	start := func(i int) {
		members++
		p, c := r.e.process(), r.crowd(members)
		c.For = time.Until(over)
		p.member, running[i] = members, p
		reply := p.Send(order{Op: opCrowd, Crowd: c})
		go func() {
			a, err := p.await(reply, max(c.For, 0)+2*c.Patience)
			results <- result{p.member, cmp.Or(err, a.err())}
		}()
	}
	for i := range running {
		start(i)
	}
	kill := time.Tick(r.all.KillEvery) // nil: never
	for left := len(running); left > 0; {
		select {
		case <-kill:
			if time.Until(over) < r.all.TTL || members == maxMembers-1 {
				continue // waiters behind a killed process would only delay the end
			}
			i := r.killed % len(running)
			r.register.gone[running[i].member].Store(true)
			running[i].Kill()
			r.killed++
			start(i)
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
