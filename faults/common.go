package faults

import (
	"context"
	"fmt"
)

// Common are the faults that can happen to the workers of every arrangement, and to their network where there is one: safe, where changed,
// which are cells of the same names, does not say otherwise.
func Common(local bool, changed ...Cell) []Cell {
	cells := []Cell{
		{Fault: "holder-killed", Strike: killHolders,
			Why: "the lock of a process that is killed (kill -9) is granted again when its TTL has passed, or its session has ended"},
		{Fault: "holder-stopped", Strike: stopHolders,
			Why: "a process that was stopped (SIGSTOP) for longer than its TTL finds its hold ended before it looks at it again"},
	}
	if !local {
		cells = append(cells,
			Cell{Fault: "holder-cut", Strike: cutHolders,
				Why: "a holder whose connections are closed, and who cannot connect again, ends its hold before the server does"},
			Cell{Fault: "holder-silent", Strike: silenceHolders,
				Why: "a holder whose network is silent (half-open) ends its hold before the server does; what was on its way arrives late and changes nothing"},
			Cell{Fault: "holder-slow", Strike: slowHolders,
				Why: "validity is counted from the sending of a request, so that slow replies shorten it"},
			Cell{Fault: "replies-lost", Strike: loseReplies,
				Why: "a request whose reply is lost may have been carried out: it is undone, or repeated, until that is certain"},
			Cell{Fault: "first-look", Script: lookAfterPause,
				Why: "a process that was stopped past its deadline is told so by its first look at the lock, before any timer has told it"},
			Cell{Fault: "holder-stopped-and-probed", Script: probeUntilExpiry,
				Why: "whoever asks for the lock of a stopped process all the time, not only when it should be free, gets it when its TTL has passed and not before"},
			Cell{Fault: "validity-from-sending", Script: countValidity,
				Why: "the deadline of a hold whose replies are slow is the TTL after its request was sent, not after its reply came"},
			Cell{Fault: "acquire-reply-lost", Script: loseAcquireReply,
				Why: "a claim whose reply is lost is undone by the process that gave up, so that others need not wait for its TTL"},
			Cell{Fault: "all-cut", Outcome: Unavailable, Strike: cutAll,
				Why: "nobody reaches the servers: all holds end in time, and nobody acquires"},
		)
	}
	for _, c := range changed {
		for i := range cells {
			if cells[i].Fault == c.Fault {
				if c.Strike == nil && c.Script == nil {
					c.Strike = cells[i].Strike
				}
				cells[i] = c
			}
		}
	}
	return cells
}

// strikes is how often a holder is struck in a phase of a fault that is brief.
const strikes = 3

// killHolders kills holders.
func killHolders(ctx context.Context, p *Phase) error {
	for range strikes {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		p.Struck()
		if err := w.Kill(); err != nil {
			return err
		}
		if err := p.Sleep(ctx, p.Between(0, p.World.TTL/2)); err != nil {
			return err
		}
	}
	return p.Sleep(ctx, p.World.TTL) // the last of them keep what they held for so long
}

// lasting strikes a holder, lets the fault last, and ends it.
func lasting(least, most float64, begin func(*Worker) error, end func(*Phase, *Worker) error) func(context.Context, *Phase) error {
	return func(ctx context.Context, p *Phase) error {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		p.Struck()
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
func stopHolders(ctx context.Context, p *Phase) error {
	resume := func(_ *Phase, w *Worker) error { return w.Resume() }
	if err := lasting(0.8, 1.2, (*Worker).Stop, resume)(ctx, p); err != nil {
		return err
	}
	return lasting(1.2, 2, (*Worker).Stop, resume)(ctx, p)
}

var cutHolders = lasting(0.05, 1.5, func(w *Worker) error {
	for _, l := range w.Seat.Links {
		l.Cut()
	}
	return nil
}, restoreLinks)

var silenceHolders = lasting(0.3, 1.7, func(w *Worker) error {
	for _, l := range w.Seat.Links {
		l.Freeze()
	}
	return nil
}, func(p *Phase, w *Worker) error {
	lost := p.Rand.IntN(2) == 0
	for _, l := range w.Seat.Links {
		if lost {
			l.DropHeld() // what was on its way never arrives
		} else {
			l.Restore()
		}
	}
	return nil
})

func restoreLinks(_ *Phase, w *Worker) error {
	for _, l := range w.Seat.Links {
		l.Restore()
	}
	return nil
}

// slowHolders makes everybody's network slow, each as much as the next or not.
func slowHolders(ctx context.Context, p *Phase) error {
	p.Struck()
	for _, w := range p.Workers() {
		delay := p.Between(0, p.World.TTL/6)
		for _, l := range w.Seat.Links {
			l.Delay(delay)
		}
	}
	if err := p.Sleep(ctx, p.World.TTL*3/2); err != nil {
		return err
	}
	for _, w := range p.Workers() {
		_ = restoreLinks(p, w)
	}
	return nil
}

// loseReplies has single replies of holders lost, and then all of one worker's for a while.
func loseReplies(ctx context.Context, p *Phase) error {
	p.Struck()
	for range 4 * strikes {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		links := w.Seat.Links
		links[p.Rand.IntN(len(links))].DropReply(nil)
		if err := p.Sleep(ctx, p.Between(0, p.World.TTL/20)); err != nil {
			return err
		}
	}
	return lasting(0.1, 1.2, func(w *Worker) error {
		for _, l := range w.Seat.Links {
			l.BlackholeReplies()
		}
		return nil
	}, restoreLinks)(ctx, p)
}

// loseAcquireReply has a claim granted whose reply is lost, and its caller gone before it could ask again: somebody else gets the lock.
func loseAcquireReply(ctx context.Context, p *Phase) error {
	hasty, patient, err := p.Two(ctx)
	if err != nil {
		return err
	}
	// What a client does but once, connecting for instance, is behind it.
	warm, err := hasty.Acquire(ctx, p.Name()+"-before", p.World.TTL)
	if err != nil {
		return err
	}
	if err := warm.Release(ctx); err != nil {
		return err
	}
	p.Struck()
	for _, l := range hasty.Seat.Links {
		l.BlackholeReplies()
	}
	if h, err := hasty.Acquire(ctx, p.Name(), p.World.TTL/8); err == nil {
		return fmt.Errorf("%s got the lock without a reply", h.Worker.Name)
	}
	_ = restoreLinks(p, hasty)
	p.Mended()
	limit := patience * p.Cell.recovery(p.World.Arrangement)
	h, err := patient.AcquireAtLast(ctx, p.Name(), limit, limit) // a first try may find no server
	if err != nil {
		return fmt.Errorf("the lock stays with who has given up: %w", err)
	}
	return h.Release(ctx)
}

// looks is how many locks a process holds that is stopped.
const looks = 10

// lookAfterPause stops a process that holds several locks until all have ended, and waits for what its first looks say.
func lookAfterPause(ctx context.Context, p *Phase) error {
	w, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	for i := range looks {
		if _, err := w.Acquire(ctx, fmt.Sprintf("%s-%d", p.Name(), i), p.World.TTL); err != nil {
			return err
		}
	}
	p.Struck()
	if err := w.Stop(); err != nil {
		return err
	}
	if err := p.Sleep(ctx, p.World.TTL+p.Between(0, p.World.TTL/4)); err != nil {
		return err
	}
	from := p.length()
	if err := w.Resume(); err != nil {
		return err
	}
	left := looks
	_, err = p.await(ctx, from, func(e Event) bool {
		if e.Worker == w.Name && e.Kind == Checked {
			left--
		}
		return left == 0
	})
	return err
}

// UnderLoad is a cell in which workers take and release locks as fast as they can, and another cell's fault strikes in the middle: thousands of tokens.
func UnderLoad(struck Cell) Cell {
	return Cell{
		Fault: struck.Fault + "-under-load", Busy: true, Recovery: struck.Recovery, Gone: struck.Gone,
		Why: "tokens grow with every grant, before, during and after: none comes twice, none falls",
		Strike: func(ctx context.Context, p *Phase) error {
			if err := p.Grants(ctx, loadGrants/2); err != nil {
				return err
			}
			if err := struck.Strike(ctx, p); err != nil {
				return err
			}
			return p.Grants(ctx, loadGrants/2)
		},
	}
}

// loadGrants is how many grants there are under load.
const loadGrants = 4000

// cutAll cuts everybody off.
func cutAll(ctx context.Context, p *Phase) error {
	p.Struck()
	for _, w := range p.Workers() {
		for _, l := range w.Seat.Links {
			l.Cut()
		}
	}
	// A request that was carried out a moment ago may still be on its way through the process that asked.
	if err := p.Sleep(ctx, p.World.TTL/4); err != nil {
		return err
	}
	p.Away()
	if err := p.Sleep(ctx, p.World.TTL+p.Between(0, p.World.TTL/2)); err != nil {
		return err
	}
	p.Back()
	for _, w := range p.Workers() {
		_ = restoreLinks(p, w)
	}
	p.Mended()
	return nil
}
