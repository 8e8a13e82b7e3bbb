package hazards

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// h6 is a holder that outlives its TTL: by long work, or since it was stopped.
var h6 = append(everywhere(longWork, onRedis(longWork, "nobody-tells-the-holder")), everywhere(paused, onRedis(paused, "nobody-tells-the-holder"))...)

var longWork = scenario{
	hazard: "H6", script: workedLong,
	setup: "A has the lock and works for two and a half times its TTL; B waits for it",
}

var paused = scenario{
	hazard: "H6", variant: "paused", script: stoppedBeforeItWrites,
	setup: "A has the lock, looks, and is stopped (SIGSTOP) before it writes, until its TTL has passed and B has the lock; B writes; A goes on and writes without another look",
}

// workedLong has A hold for longer than its TTL.
func workedLong(ctx context.Context, p *trial) error {
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	a, err := p.waits(ctx, w[0], p.limit())
	if err != nil {
		return err
	}
	waiting, err := p.askBy(ctx, w[1], func() (*play.Hold, error) { return p.waits(ctx, w[1], 2*p.limit()) })
	if err != nil {
		return err
	}
	work := p.Environment.TTL * 5 / 2
	select {
	case <-waiting.over:
		b, err := waiting.wait()
		if err != nil {
			return err
		}
		p.found(report.Safe, "A had the lock, whose TTL is %s, for %s when B got it too.", text(p.Environment.TTL), text(p.after(p.event(w[0], a.Op, history.Got).At, b)))
		if err := p.Both(ctx, a, b); err != nil {
			return err
		}
		return p.linger(ctx, a)
	case <-time.After(work):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := a.Update(ctx); err != nil {
		return err
	}
	released := history.Now()
	if err := a.Release(ctx); err != nil {
		return err
	}
	b, err := waiting.wait()
	if err != nil {
		return err
	}
	p.found(report.Safe, "A worked for %s, 2.5 times its TTL; B, which waited, had the lock %s after A had begun to release it.", text(work), text(p.after(released, b)))
	return b.Update(ctx)
}

// stoppedBeforeItWrites has A stopped between its look at the lock and its write.
func stoppedBeforeItWrites(ctx context.Context, p *trial) error {
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	a, err := p.waits(ctx, w[0], p.limit())
	if err != nil {
		return err
	}
	if err := p.Sleep(ctx, holding); err != nil {
		return err
	}
	valid, err := a.Valid(ctx)
	if err != nil {
		return err
	}
	p.Note("A looks, and %s", map[bool]string{true: "still has the lock", false: "has lost the lock"}[valid])
	b, stopped, err := p.stopUntilNext(ctx, a, w[1])
	if err != nil || b == nil {
		return err
	}
	if err := b.Update(ctx); err != nil {
		return err
	}
	pause := history.Now().Sub(stopped)
	if err := a.Worker.Resume(); err != nil {
		return err
	}
	p.Healed()
	if valid, err = a.Valid(ctx); err != nil {
		return err
	}
	p.Note("A goes on and writes, and %s", map[bool]string{true: "still believes in its lock", false: "knows that its lock is gone"}[valid])
	if err := a.Update(ctx); err != nil {
		return err
	}
	if valid {
		p.found(report.Fenced, "A was stopped for %s, in which B got the lock; when A went on it still believed in its own, and wrote.", text(pause))
		return p.linger(ctx, a)
	}
	p.found(report.Safe, "A was stopped for %s, in which B got the lock; when A went on, its first look said that its own was lost, and then it wrote all the same.", text(pause))
	return b.Release(ctx)
}
