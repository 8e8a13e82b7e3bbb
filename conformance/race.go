package conformance

import (
	"context"
	"errors"
	"fmt"
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
	r := e.race(o, crowd{TTL: ttl, Goroutines: o.Goroutines, For: o.For, Patience: o.Patience})
	e.after(func() { r.fill(report) })
	if e.cfg.Local {
		r.clients()
	} else {
		r.processes()
	}
	r.allFree(crowdNames)
}

// contend makes a case in which clients, each with goroutines of its own, acquire one name repeatedly. run starts them.
func contend(clients int, all crowd, run func(*race)) func(*Env) {
	return func(e *Env) {
		all.TTL, all.Patience = e.ttl, 30*time.Second
		r := e.race(SoakOptions{Processes: clients, Patience: all.Patience}, all)
		run(r)
		took := int64(clients*all.Goroutines*all.Rounds) - r.register.tooSlow.Load() // the machine stalled
		n := r.register.acquired.Load()
		e.require(n == took, "%d holds were counted, %d took place", n, took)
		r.allFree(1)
	}
}

// race is a competition of crowds for names.
type race struct {
	e        *Env
	o        SoakOptions
	register *register
	first    crowd // what all crowds have in common
	killed   int
}

// race makes a race. Workers map its register from a file; if they cannot, it is in this process's memory, and has no path.
func (e *Env) race(o SoakOptions, first crowd) *race {
	dir, err := os.MkdirTemp("", "lockport-conformance-")
	e.check(err, "a folder for the register")
	e.after(func() { _ = os.RemoveAll(dir) })
	first.Prefix, first.Register = e.name()+"-", filepath.Join(dir, registerFile)
	reg, unmap, err := mapRegister(first.Register)
	if err != nil {
		reg, unmap, first.Register = new(register), func() {}, ""
	}
	e.after(unmap)
	return &race{e: e, o: o, register: reg, first: first}
}

// crowd returns the crowd of a member. Of the crowds that acquire in every way, every third has no hand-off.
func (r *race) crowd(member int) *crowd {
	c := r.first
	c.Member = member
	c.NoHandOff = c.NoHandOff || c.Rounds == 0 && member%3 == 0
	return &c
}

// fill fills in the figures of the report.
func (r *race) fill(report *SoakReport) {
	reg := r.register
	report.Killed = r.killed
	report.Acquired, report.HandedOff, report.PassedOn = reg.acquired.Load(), reg.handedOff.Load(), reg.passedOn.Load()
	report.GaveUp, report.InVain, report.TooSlow = reg.gaveUp.Load(), reg.inVain.Load(), reg.tooSlow.Load()
	report.Longest, report.Latest = time.Duration(reg.longest.Load()), time.Duration(reg.latest.Load())
}

// allFree checks that the first n names, which nobody holds any more, can be acquired.
func (r *race) allFree(n int) {
	e := r.e
	c := e.client(lockport.TTL(r.first.TTL))
	for i := range n {
		limit := e.takeover() + 2*callTime + r.first.TTL
		l := e.acquireWithin(c, r.first.Prefix+strconv.Itoa(i), limit, "all crowds released their locks")
		e.rises(r.register.cells[i].token.Load(), token(l))
		e.release(l)
	}
}

// clients runs all crowds in this process, each with its own client.
func (r *race) clients() {
	all := make([]*crowd, r.o.Processes)
	for i := range all {
		all[i] = r.crowd(i + 1)
		all[i].client = r.e.client(all[i].join(r.register)...)
	}
	r.e.storm(len(all), func(ctx context.Context, i int) error { return errors.Join(all[i].run(ctx), all[i].client.Close()) })
}

// storm calls f in n goroutines, with the goroutine's number, and waits for all. An error ends the context of all, and the case.
func (e *Env) storm(n int, f func(ctx context.Context, i int) error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := f(ctx, i); err != nil {
				e.fail(err)
				cancel()
			}
		})
	}
	all.Wait()
	e.stopIfFailed()
}

// processes runs each crowd in its own process. Every KillEvery it kills one and starts another.
func (r *race) processes() {
	if why := missing(r.e.cfg, "processes"); why != "" {
		r.e.notRun("%s", why)
	}
	if r.first.Register == "" {
		r.e.notRun("processes cannot share memory here")
	}
	type result struct {
		member int
		answer answer
		err    error
	}
	results := make(chan result, maxMembers)
	over := time.Now().Add(r.o.For)
	members, running := 0, make([]*process, r.o.Processes)
	start := func(i int) {
		members++
		p, c := r.e.process(), r.crowd(members)
		c.For = time.Until(over)
		p.member, running[i] = members, p
		reply := p.Send(order{Op: opCrowd, Crowd: c})
		go func() {
			a, err := p.await(reply, max(c.For, 0)+2*r.o.Patience)
			results <- result{p.member, a, err}
		}()
	}
	for i := range running {
		start(i)
	}
	var kill <-chan time.Time
	if r.o.KillEvery > 0 {
		tick := time.NewTicker(r.o.KillEvery)
		defer tick.Stop()
		kill = tick.C
	}
	for left := len(running); left > 0; {
		select {
		case <-kill:
			if time.Until(over) < r.first.TTL || members == maxMembers-1 {
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
			r.e.require(res.answer.Err == "", "%s", res.answer.Err)
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
	pprof.Do(ctx, pprof.Labels(goroutineLabel, label), func(ctx context.Context) {
		if c.client, err = lockport.New(b, append(c.join(reg), lockport.Logger(nil), lockport.Label("conformance"))...); err != nil {
			return
		}
		err = c.run(ctx)
		if closed := c.client.Close(); closed != nil {
			err = errors.Join(err, fmt.Errorf("all locks were released, yet Close returned: %w", closed))
		}
	})
	if err != nil {
		return err
	}
	var left string
	if !poll(ctx, leakGrace, func() bool { left = labelled(label); return left == "" }) {
		return fmt.Errorf("P8 no leaks: when all is closed, no goroutine may be left; there are:\n%s", left)
	}
	return nil
}
