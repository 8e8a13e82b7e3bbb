package hazards

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// h14 is a process that asks for a lock which it has.
var h14 = everywhere(asksTwice, scenario{
	hazard: "H14", subject: report.Article, notRun: "None of the locks that the articles build lets its holder in again; they tell of a library's that counts.",
})

var asksTwice = scenario{
	hazard: "H14", script: askedTwice,
	setup: "A has the lock, and asks for it again, by one attempt and by waiting for it",
}

// askedTwice has a process ask for the lock that it has.
func askedTwice(ctx context.Context, p *trial) error {
	a, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	first, err := p.waits(ctx, a, p.limit())
	if err != nil {
		return err
	}
	patient := p.Environment.TTL / 2
	for _, attempt := range []struct {
		class history.Class
		ask   func(context.Context, string, time.Duration) (*play.Hold, error)
	}{{history.ClassHeld, a.TryAcquire}, {history.ClassTimedOut, a.Acquire}} {
		second, err := attempt.ask(ctx, p.Name(), patient)
		if err == nil {
			p.found(report.Safe, "A had the lock, asked again, and had it twice.")
			return p.Both(ctx, first, second)
		}
		if !refusedFor(err, attempt.class) {
			return err
		}
	}
	if err := first.Release(ctx); err != nil {
		return err
	}
	p.found(report.Safe, "A's second attempt was refused at once, since somebody has the lock, and one that waited was given up in vain after %s.", text(patient))
	again, err := p.waits(ctx, a, p.limit())
	if err != nil {
		return err
	}
	p.found(report.Safe, "When A had released it, once, it could be had again.")
	return again.Release(ctx)
}
