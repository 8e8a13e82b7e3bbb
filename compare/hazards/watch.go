package hazards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// script is what a scenario plays.
type script = func(ctx context.Context, p *trial) error

// of is the script of a cell of faults, with another TTL if that is not 0: see patient.
func of(world, fault string, ttl time.Duration) script {
	return func(ctx context.Context, p *trial) error {
		for _, a := range faults.All() {
			for i := range a.Cells {
				if c := &a.Cells[i]; a.Name == world && c.Fault == fault && c.Script != nil {
					p.patient(ttl)
					return c.Script(ctx, p.Phase)
				}
			}
		}
		return fmt.Errorf("no cell %s of %s has a script", fault, world)
	}
}

// patient has the workers that are started from now on use another TTL than the arrangement's, if it is not 0. What is to be seen before a holder's
// next renewal, or its deadline, is then seen also on a machine that is busy.
func (p *trial) patient(ttl time.Duration) {
	if ttl == 0 {
		return
	}
	arrangement, world := *p.Environment.Environment, *p.Environment
	inURL := "ttl=" + arrangement.TTL.String() // where the TTL belongs to the session
	seat := world.Endpoint
	arrangement.Margin += (ttl - arrangement.TTL) / 20
	arrangement.TTL = ttl
	world.Environment = &arrangement
	world.Endpoint = func() (*environment.Endpoint, error) {
		s, err := seat()
		if err == nil {
			s.URL = strings.Replace(s.URL, inURL, "ttl="+ttl.String(), 1)
		}
		return s, err
	}
	p.Environment = &world
}

// workers are n workers.
func (p *trial) workers(ctx context.Context, n int) ([]*play.Worker, error) {
	all, errs := make([]*play.Worker, n), make([]error, n)
	for i := range all { // one after the other: their order is that of the lanes
		all[i], errs[i] = p.Worker(ctx)
	}
	return all, errors.Join(errs...)
}

// linger lets two believe until the older one is told, or for long enough to be seen.
func (p *trial) linger(ctx context.Context, older *play.Hold) error {
	_, err := p.told(ctx, older, 1500*time.Millisecond)
	return err
}

// believed is for how long two believe, at least.
const believed = 500 * time.Millisecond

// told waits until a worker believes no more in its hold, for so long at most, and returns how long that took.
func (p *trial) told(ctx context.Context, h *play.Hold, most time.Duration) (time.Duration, error) {
	for begun := time.Now(); ; {
		valid, err := h.Valid(ctx)
		if err != nil || !valid || time.Since(begun) > most {
			return time.Since(begun), err
		}
		if err := p.Sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// patientTTL is that of plays in which servers are replaced, or started again, before a holder looks, or has come to its deadline: far longer than that
// takes, also on a machine that is busy.
const patientTTL = 30 * time.Second

// overtaken has one worker hold a lock while damage is done to the servers, another one acquire it then, and both write.
func overtaken(damage script) script {
	return func(ctx context.Context, p *trial) error { return overtake(ctx, p, damage, false) }
}

// unheard is overtaken, where the network of the holder falls silent first, so that it hears nothing of what happens to the servers.
func unheard(damage script) script {
	return func(ctx context.Context, p *trial) error { return overtake(ctx, p, damage, true) }
}

func overtake(ctx context.Context, p *trial, damage script, silent bool) error {
	p.patient(patientTTL)
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	a, err := p.holds(ctx, w[0])
	if err != nil {
		return err
	}
	if silent {
		defer p.silence(w[0])()
	}
	p.Injected()
	if err := damage(ctx, p); err != nil {
		return err
	}
	p.Healed()
	return p.alsoGets(ctx, a, w[1])
}

// alsoGets has a second worker acquire a lock that a first one holds, if it can be had, and both write.
func (p *trial) alsoGets(ctx context.Context, a *play.Hold, w *play.Worker) error {
	b, err := acquired(ctx, p, w, p.Name())
	if taken(err) {
		p.found(report.Safe, "B did not get the lock within %s.", text(lasting))
		return nil
	}
	if err != nil {
		return err
	}
	return p.bothWrite(ctx, a, b)
}

// bothWrite has two who should believe write, and lets them believe for a while, so that it can be seen.
func (p *trial) bothWrite(ctx context.Context, older, newer *play.Hold) error {
	if err := p.Both(ctx, older, newer); err != nil {
		return err
	}
	return p.Sleep(ctx, believed)
}

// acquired has a worker acquire the lock, and try again if it cannot for a reason that will pass, which another holder is not.
func acquired(ctx context.Context, p *trial, w *play.Worker, name string) (*play.Hold, error) {
	for limit := time.Now().Add(lasting); ; {
		h, err := w.Acquire(ctx, name, lasting)
		if err == nil || taken(err) || time.Now().After(limit) {
			return h, err
		}
		if err := p.Sleep(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// lasting is how long a script waits for what must happen at last.
const lasting = 20 * time.Second

// holding is for how long a holder has the lock before something happens, so that it can be seen.
const holding = 300 * time.Millisecond

// holds has a worker acquire the lock, and hold it for a while.
func (p *trial) holds(ctx context.Context, w *play.Worker) (*play.Hold, error) {
	h, err := w.Acquire(ctx, p.Name(), lasting)
	if err != nil {
		return nil, err
	}
	return h, p.Sleep(ctx, holding)
}

// watched has one worker hold a lock, a second one ask for it all the time, and a third one take and release another lock, while damage is done to
// the servers that are left as they are: it lasts until that other lock can be had again. What that has done to each, it says with found.
func watched(damage script) script {
	return func(ctx context.Context, p *trial) error {
		if p.Environment.Backend != "zookeeper" { // whose servers allow no longer one
			p.patient(patientTTL)
		}
		w, err := p.workers(ctx, 3)
		if err != nil {
			return err
		}
		a, err := p.holds(ctx, w[0])
		if err != nil {
			return err
		}
		free := p.Name() + "-free"
		if err := p.warmUp(ctx, w[2]); err != nil {
			return err
		}
		rival := p.asksAllTheTime(ctx, w[1])
		defer rival()
		p.Injected()
		if err := damage(ctx, p); err != nil {
			return err
		}
		struck := time.Now()
		for err = p.took(ctx, w[2], free); err != nil && time.Since(struck) < lasting && ctx.Err() == nil; {
			err = p.took(ctx, w[2], free)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			p.found(report.Unavailable, "For %s nobody could have a lock.", text(time.Since(struck)))
			return nil
		}
		p.found(report.Safe, "C could have another lock again after %s.", text(time.Since(struck)))
		p.Note("another lock can be had again")
		p.Healed()
		mended := history.Now()
		if err := p.Sleep(ctx, believed); err != nil { // in which the rival may get what it ought not to
			return err
		}
		if err := p.answeredSince(ctx, w[1], a, mended); err != nil {
			return err
		}
		b := rival()
		told := p.event(w[0], a.Op, history.Told).At
		switch {
		case b != nil && (told == 0 || told > p.event(w[1], b.Op, history.Got).At):
			return p.Both(ctx, a, b)
		case told != 0:
			p.found(report.Safe, "A was told that its lock was lost.")
		default:
			p.found(report.Safe, "A kept its lock, and B, which asked for it all the time, did not get it.")
		}
		return nil
	}
}

// warmUp has workers do what clients do but once, connecting for instance.
func (p *trial) warmUp(ctx context.Context, w ...*play.Worker) error {
	for _, worker := range w {
		h, err := acquired(ctx, p, worker, p.Name()+"-before")
		if err != nil {
			return err
		}
		if err := h.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// took has a worker acquire and release a lock.
func (p *trial) took(ctx context.Context, w *play.Worker, name string) error {
	h, err := w.Acquire(ctx, name, time.Second)
	if err != nil {
		return errors.Join(err, p.Sleep(ctx, 10*time.Millisecond))
	}
	return h.Release(ctx)
}

// event is the last event of that kind of a worker's acquisition; its time is 0 if there is none.
func (p *trial) event(w *play.Worker, op int64, kind history.Kind) (found history.Event) {
	for _, e := range p.Events() {
		if e.Worker == w.Name && e.Op == op && e.Kind == kind {
			found = e
		}
	}
	return found
}

// text is a duration for people, in milliseconds, or in seconds with two digits after the point.
func text(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "less than 1 ms"
	case d.Round(time.Millisecond) < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
