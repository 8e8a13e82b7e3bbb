package faults

import (
	"context"
	"fmt"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// Common are the faults of workers, and unless local those of their network, which every environment has. They are safe, unless changed has a cell of the same
// name.
func Common(local bool, changed ...play.Cell) []play.Cell {
	cells := []play.Cell{
		{Fault: "holder-killed", Inject: killHolders,
			Why: "the lock of a process that is killed (kill -9) is granted again when its TTL has passed, or its session has ended"},
		{Fault: "holder-stopped", Inject: stopHolders,
			Why: "a process that was stopped (SIGSTOP) for longer than its TTL finds its hold ended before it looks at it again"},
	}
	if !local {
		cells = append(cells,
			play.Cell{Fault: "holder-cut", Inject: cutHolders,
				Why: "a holder whose connections are closed, and who cannot connect again, ends its hold before the server does"},
			play.Cell{Fault: "holder-silent", Inject: silenceHolders,
				Why: "a holder whose network is silent (half-open) ends its hold before the server does; what was on its way arrives late and changes nothing"},
			play.Cell{Fault: "holder-slow", Inject: slowHolders,
				Why: "validity is counted from the sending of a request, so that slow replies shorten it"},
			play.Cell{Fault: "replies-lost", Inject: loseReplies,
				Why: "a request whose reply is lost may have been carried out: it is undone, or repeated, until that is certain"},
			play.Cell{Fault: "first-look", Script: lookAfterPause,
				Why: "a process that was stopped past its deadline is told so by its first look at the lock, before any timer has told it"},
			play.Cell{Fault: "holder-stopped-and-probed", Script: probeUntilExpiry,
				Why: "whoever asks for the lock of a stopped process all the time, not only when it should be free, gets it when its TTL has passed and not before"},
			play.Cell{Fault: "validity-from-sending", Script: countValidity,
				Why: "the deadline of a hold whose replies are slow is the TTL after its request was sent, not after its reply came"},
			play.Cell{Fault: "acquire-reply-lost", Script: loseAcquireReply,
				Why: "a claim whose reply is lost is undone by the process that gave up, so that others need not wait for its TTL"},
			play.Cell{Fault: "all-cut", Outcome: play.Unavailable, Inject: cutAll,
				Why: "nobody reaches the servers: all holds end in time, and nobody acquires"},
		)
	}
	for _, c := range changed {
		for i := range cells {
			if cells[i].Fault == c.Fault {
				if c.Inject == nil && c.Script == nil {
					c.Inject = cells[i].Inject
				}
				cells[i] = c
			}
		}
	}
	return cells
}

// injections is how often a brief fault is injected into a holder in a phase.
const injections = 3

// killHolders kills holders.
func killHolders(ctx context.Context, p *play.Phase) error {
	for range injections {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		p.Injected()
		if err := w.Kill(); err != nil {
			return err
		}
		if err := p.Sleep(ctx, p.Between(0, p.Environment.TTL/2)); err != nil {
			return err
		}
	}
	return p.Sleep(ctx, p.Environment.TTL) // the last of them keep what they held for so long
}

// onHolder injects a fault into a holder, lets the fault last, and ends it.
func onHolder(least, most float64, begin func(*play.Worker) error, end func(*play.Phase, *play.Worker) error) func(context.Context, *play.Phase) error {
	return func(ctx context.Context, p *play.Phase) error {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		p.Injected()
		if err := begin(w); err != nil {
			return err
		}
		if err := p.Sleep(ctx, p.BetweenTTLs(least, most)); err != nil {
			return err
		}
		return end(p, w)
	}
}

// stopHolders stops a holder for about a TTL and another for longer.
func stopHolders(ctx context.Context, p *play.Phase) error {
	resume := func(_ *play.Phase, w *play.Worker) error { return w.Resume() }
	if err := onHolder(0.8, 1.2, (*play.Worker).Stop, resume)(ctx, p); err != nil {
		return err
	}
	return onHolder(1.2, 2, (*play.Worker).Stop, resume)(ctx, p)
}

var cutHolders = onHolder(0.05, 1.5, func(w *play.Worker) error {
	w.Endpoint.Links.Each((*faultproxy.Proxy).Cut)
	return nil
}, restoreLinks)

var silenceHolders = onHolder(0.3, 1.7, func(w *play.Worker) error {
	w.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
	return nil
}, func(p *play.Phase, w *play.Worker) error {
	lost := p.Rand.IntN(2) == 0
	for _, l := range w.Endpoint.Links {
		if lost {
			l.DropHeld() // what was on its way never arrives
		} else {
			l.Restore()
		}
	}
	return nil
})

func restoreLinks(_ *play.Phase, w *play.Worker) error {
	w.Endpoint.Links.Each((*faultproxy.Proxy).Restore)
	return nil
}

// slowHolders makes everybody's network slow, each as much as the next or not.
func slowHolders(ctx context.Context, p *play.Phase) error {
	p.Injected()
	for _, w := range p.Workers() {
		delay := p.Between(0, p.Environment.TTL/6)
		for _, l := range w.Endpoint.Links {
			l.Delay(delay)
		}
	}
	if err := p.Sleep(ctx, p.Environment.TTL*3/2); err != nil {
		return err
	}
	for _, w := range p.Workers() {
		_ = restoreLinks(p, w)
	}
	return nil
}

// loseReplies has single replies of holders lost, and then all of one worker's for a while.
func loseReplies(ctx context.Context, p *play.Phase) error {
	p.Injected()
	for range 4 * injections {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		links := w.Endpoint.Links
		links[p.Rand.IntN(len(links))].DropReply(nil)
		if err := p.Sleep(ctx, p.Between(0, p.Environment.TTL/20)); err != nil {
			return err
		}
	}
	return onHolder(0.1, 1.2, func(w *play.Worker) error {
		w.Endpoint.Links.Each((*faultproxy.Proxy).BlackholeReplies)
		return nil
	}, restoreLinks)(ctx, p)
}

// loseAcquireReply has a claim granted whose reply is lost, and its caller gone before it could ask again: somebody else gets the lock.
func loseAcquireReply(ctx context.Context, p *play.Phase) error {
	hasty, patient, err := p.Two(ctx)
	if err != nil {
		return err
	}
	// What a client does but once, connecting for instance, is behind it.
	warm, err := hasty.Acquire(ctx, p.Name()+"-before", p.Environment.TTL)
	if err != nil {
		return err
	}
	if err := warm.Release(ctx); err != nil {
		return err
	}
	p.Injected()
	hasty.Endpoint.Links.Each((*faultproxy.Proxy).BlackholeReplies)
	if h, err := hasty.Acquire(ctx, p.Name(), p.Environment.TTL/8); err == nil {
		return fmt.Errorf("%s got the lock without a reply", h.Worker.Name)
	}
	_ = restoreLinks(p, hasty)
	p.Healed()
	limit := play.Patience * p.Cell.RecoveryIn(p.Environment.Environment)
	h, err := patient.AcquireAtLast(ctx, p.Name(), limit, limit) // a first try may find no server
	if err != nil {
		return fmt.Errorf("the lock stays with who has given up: %w", err)
	}
	return h.Release(ctx)
}

// looks is how many locks a process holds that is stopped.
const looks = 10

// lookAfterPause stops a process that holds several locks until all have ended, and waits for what its first looks say.
func lookAfterPause(ctx context.Context, p *play.Phase) error {
	w, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	for i := range looks {
		if _, err := w.Acquire(ctx, fmt.Sprintf("%s-%d", p.Name(), i), p.Environment.TTL); err != nil {
			return err
		}
	}
	p.Injected()
	if err := w.Stop(); err != nil {
		return err
	}
	if err := p.Sleep(ctx, p.Environment.TTL+p.Between(0, p.Environment.TTL/4)); err != nil {
		return err
	}
	from := p.Length()
	if err := w.Resume(); err != nil {
		return err
	}
	left := looks
	_, err = p.Await(ctx, from, func(e history.Event) bool {
		if e.Worker == w.Name && e.Kind == history.Checked {
			left--
		}
		return left == 0
	})
	return err
}

// UnderLoad is a cell in which workers take and release locks as fast as they can, and another cell's fault is injected in the middle: thousands of tokens.
func UnderLoad(other play.Cell) play.Cell {
	return play.Cell{
		Fault: other.Fault + "-under-load", Busy: true, Recovery: other.Recovery, Gone: other.Gone,
		Why: "tokens grow with every grant, before, during and after: none comes twice, none falls",
		Inject: func(ctx context.Context, p *play.Phase) error {
			if err := p.Grants(ctx, loadGrants/2); err != nil {
				return err
			}
			if err := other.Inject(ctx, p); err != nil {
				return err
			}
			return p.Grants(ctx, loadGrants/2)
		},
	}
}

// loadGrants is how many grants there are under load.
const loadGrants = 4000

// cutAll cuts everybody off.
func cutAll(ctx context.Context, p *play.Phase) error {
	p.Injected()
	for _, w := range p.Workers() {
		w.Endpoint.Links.Each((*faultproxy.Proxy).Cut)
	}
	// A request that was carried out a moment ago may still be on its way through the process that asked.
	if err := p.Sleep(ctx, p.Environment.TTL/4); err != nil {
		return err
	}
	p.Away()
	if err := p.Sleep(ctx, p.Environment.TTL+p.Between(0, p.Environment.TTL/2)); err != nil {
		return err
	}
	p.Back()
	for _, w := range p.Workers() {
		_ = restoreLinks(p, w)
	}
	p.Healed()
	return nil
}
