package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/lockport/lockport"
)

// SoakOptions says how large a soak is, and how long it lasts.
type SoakOptions struct {
	// For is how long it lasts. Default: 1 minute.
	For time.Duration
	// Processes is how many there are at a time. Default: 4. Where Config.Local says that other processes cannot reach the locks they are
	// clients of this one.
	Processes int
	// Goroutines is how many each process has. Default: 512.
	Goroutines int
	// Patience is within what time everybody must get a name that he waits for. Default: 2 minutes.
	Patience time.Duration
	// KillEvery is how often one of the processes is killed, as by kill -9, and another begins. Default: 20 s. Negative: never.
	KillEvery time.Duration
}

func (o SoakOptions) withDefaults() SoakOptions {
	orElse := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	orElse(&o.For, time.Minute)
	orElse(&o.Patience, 2*time.Minute)
	orElse(&o.KillEvery, 20*time.Second)
	if o.Processes <= 0 {
		o.Processes = 4
	}
	if o.Goroutines <= 0 {
		o.Goroutines = 512
	}
	return o
}

// SoakReport is what was seen in a soak, ready for encoding/json. A soak ends with the first rule that is broken.
type SoakReport struct {
	Backend    string        `json:"backend"`
	TTL        time.Duration `json:"ttl_ns"`
	Took       time.Duration `json:"took_ns"`
	Processes  int           `json:"processes"`
	Goroutines int           `json:"goroutines"` // of each process
	Killed     int           `json:"killed"`

	Acquired  int64         `json:"acquired"`   // holds
	HandedOff int64         `json:"handed_off"` // holds that came from another goroutine of the process, without a request
	PassedOn  int64         `json:"passed_on"`  // holds of names that another process had before
	GaveUp    int64         `json:"gave_up"`    // calls whose context ended first
	InVain    int64         `json:"in_vain"`    // calls of TryAcquire that found the name held
	TooSlow   int64         `json:"too_slow"`   // calls that failed because the server took more than 1 s, or half of the TTL, to answer
	Longest   time.Duration `json:"longest_ns"` // wait of a call that got its name
	Latest    time.Duration `json:"latest_ns"`  // return of a call after the end of its context

	// Broken is the rule that was broken, and what was seen. Empty: none was.
	Broken string `json:"broken,omitempty"`
	// Error says why nothing could be run: the backend could not be opened, or there can be no processes.
	Error string `json:"error,omitempty"`
}

// OK says that the soak took place, and that no rule was broken.
func (r SoakReport) OK() bool { return r.Broken == "" && r.Error == "" }

// String is the report in one line.
func (r SoakReport) String() string {
	broken := "0 violations"
	if !r.OK() {
		broken = r.Broken + r.Error
	}
	return fmt.Sprintf("%s: %d acquisitions by %d × %d goroutines in %v, %d handed off inside a process, %d passed to another process, %d given up, %d in vain, "+
		"%d failed by slowness, %d processes killed; longest wait %v, latest return %v: %s", r.Backend, r.Acquired, r.Processes, r.Goroutines, r.Took.Round(time.Second), r.HandedOff,
		r.PassedOn, r.GaveUp, r.InVain, r.TooSlow, r.Killed, r.Longest.Round(time.Millisecond), r.Latest.Round(time.Millisecond), broken)
}

// Soak has crowds of goroutines in several processes race for 128 names, one of which a third of them want, in all the ways in which a lock can be asked
// for: without limit, with contexts that end at any moment, by TryAcquire and Do, with MinHold, MaxHold and other TTLs, for moments and for longer than a renewal takes;
// processes are killed and replaced. It looks for two holders at a time, tokens that do not rise in the order of the holds, holds that are lost although the server is
// well, calls that outlast their contexts, waiters that starve, and, at the end, for what is left: goroutines, connections and keys where Config
// lets it, and names that nobody can have.
//
// Every process writes what it does into memory that all share, so the order is that in which it happened, by no clock. Under the race detector it also
// shows what the holds of a name, one after the other in one process, do not see of each other. WorkerMain must have been called, as for Run.
// Config.Faults produces no faults here. The TTL is Config.MinTTL if that is set, and otherwise 5 s: an overloaded machine that cannot renew in that time shows as
// losses. It returns when o.For has passed and everybody has got what he waited for, or when ctx ends.
func Soak(ctx context.Context, cfg Config, o SoakOptions) SoakReport {
	o = o.withDefaults()
	report := SoakReport{Processes: o.Processes, Goroutines: o.Goroutines}
	if cfg.MinTTL == 0 {
		cfg.MinTTL = crowdTTL
	}
	r, err := newRunner(ctx, cfg)
	if err != nil {
		report.Error = err.Error()
		return report
	}
	report.Backend, report.TTL = r.caps.Backend, r.ttl
	res := r.run(ctx, r.cfg, Case{
		Group: "exclusion", Name: "crowd", Rule: ruleCrowd, Alone: true, Limit: o.For + 2*o.Patience + time.Minute,
		Run: func(_ context.Context, e *Env) error { return e.crowds(o, r.ttl, &report) },
	})
	report.Took = res.Took
	switch res.Outcome {
	case Fail:
		report.Broken = res.Message()
	case NotRun:
		report.Error = res.Reason
	}
	return report
}

const ruleCrowd = "P1 exclusion, P2 fencing: in a crowd that asks for names in every way, and gives up at every moment, nobody shares a name and tokens rise"

// crowdTTL is what the locks of a crowd have where nobody says otherwise: so long that a busy machine renews them in time, and not too long for who waits
// for the lock of a process that was killed.
const crowdTTL = 5 * time.Second

// crowds has crowds race, in processes of their own where that can be, and looks at what they leave.
func (e *Env) crowds(o SoakOptions, ttl time.Duration, report *SoakReport) error {
	reg, path := e.register()
	local := e.cfg.Local
	race := &race{e: e, o: o, register: reg, first: crowd{TTL: ttl, Goroutines: o.Goroutines, Patience: o.Patience, Register: path, Prefix: e.name() + "-"}}
	e.after(func() { race.fill(report) })
	if local {
		race.clients()
	} else {
		if why := NeedProcesses.missing(e.cfg); why != "" {
			e.notRun("%s", why)
		}
		race.processes()
	}
	// What nobody holds is to be had, by whoever comes.
	c := e.client(lockport.TTL(ttl))
	for i := range reg.cells {
		limit := e.takeover() + 2*callTime + ttl
		l := e.acquireWithin(c, race.first.Prefix+strconv.Itoa(i), limit, "everybody in the crowd has released its locks")
		e.rises(reg.cells[i].token.Load(), token(l))
		e.release(l)
	}
	return nil
}

// register makes a register that worker processes can map by its path. Where processes share no memory, cases of one process have one all the same.
func (e *Env) register() (*register, string) {
	dir, err := os.MkdirTemp("", "lockport-conformance-")
	e.check(err, "a folder for the register")
	e.after(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, registerFile)
	reg, unmap, err := mapRegister(path)
	switch {
	case err == nil:
		e.after(unmap)
	case e.cfg.Local && errors.Is(err, errors.ErrUnsupported):
		reg = new(register)
	default:
		e.notRun("processes cannot share memory here: %v", err)
	}
	return reg, path
}

// race is the crowds of one soak.
type race struct {
	e        *Env
	o        SoakOptions
	register *register
	first    crowd // what all have in common
	killed   int
}

// fill fills in the figures.
func (r *race) fill(report *SoakReport) {
	reg := r.register
	report.Killed = r.killed
	report.Acquired, report.HandedOff, report.PassedOn = reg.acquired.Load(), reg.handedOff.Load(), reg.passedOn.Load()
	report.GaveUp, report.InVain, report.TooSlow = reg.gaveUp.Load(), reg.inVain.Load(), reg.tooSlow.Load()
	report.Longest, report.Latest = time.Duration(reg.longest.Load()), time.Duration(reg.latest.Load())
}

// clients lets all crowds in in this process, with a client each.
func (r *race) clients() {
	all := make([]*crowd, r.o.Processes)
	for i := range all {
		c := r.first
		c.Member, c.For, c.register = i+1, r.o.For, r.register
		c.client = r.e.client(c.options()...)
		all[i] = &c
	}
	r.e.storm(len(all), 1, func(ctx context.Context, i int) error {
		if err := all[i].run(ctx); err != nil {
			return err
		}
		return all[i].client.Close()
	})
}

// processes lets them in in processes of their own, of which one is killed now and then.
func (r *race) processes() {
	type result struct {
		p *process
		a answer
		e error
	}
	results := make(chan result, maxMembers)
	over := time.Now().Add(r.o.For)
	members := 0
	start := func() *process {
		members++
		c := r.first
		c.Member = members
		p := r.e.process()
		c.For = time.Until(over)
		p.member = members
		reply := p.begin(order{Op: opCrowd, Crowd: &c})
		go func() {
			a, err := p.await(reply, c.For+2*r.o.Patience)
			results <- result{p, a, err}
		}()
		return p
	}
	running := make([]*process, r.o.Processes)
	for i := range running {
		running[i] = start()
	}
	left := len(running)
	var kill <-chan time.Time
	if r.o.KillEvery > 0 {
		tick := time.NewTicker(r.o.KillEvery)
		defer tick.Stop()
		kill = tick.C
	}
	for left > 0 {
		select {
		case <-kill:
			if time.Until(over) < r.first.TTL || members == maxMembers-1 {
				continue // whoever waits for it would only make the end later
			}
			i := r.killed % len(running)
			r.register.gone[running[i].member].Store(true)
			running[i].Kill()
			r.killed++
			running[i] = start()
		case res := <-results:
			if r.register.gone[res.p.member].Load() {
				continue
			}
			left--
			r.e.check(res.e, "process %d", res.p.member)
			if res.a.Err != "" {
				r.e.failf("%s", res.a.Err)
			}
		}
	}
}

// crowd is a worker's part in a race.
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
	c.register = reg
	label := c.Prefix + strconv.Itoa(c.Member)
	pprof.Do(ctx, pprof.Labels(goroutineLabel, label), func(ctx context.Context) {
		if c.client, err = lockport.New(b, append(c.options(), lockport.Logger(nil), lockport.Label("conformance"))...); err != nil {
			return
		}
		err = c.run(ctx)
		if closed := c.client.Close(); closed != nil {
			err = errors.Join(err, fmt.Errorf("Close, when nobody holds anything any more, returned: %w", closed))
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
