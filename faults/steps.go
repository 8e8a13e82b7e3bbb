package faults

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/play"
)

// step is a part of a strike or script.
type step func(ctx context.Context, p *play.Phase) error

// lasting begins a fault of the servers, lets it last for between least and most TTLs, and ends it.
func lasting(begin step, least, most float64, end step) step {
	return func(ctx context.Context, p *play.Phase) error {
		p.Injected()
		if err := begin(ctx, p); err != nil {
			return err
		}
		if err := p.Sleep(ctx, p.BetweenTTLs(least, most)); err != nil {
			return err
		}
		if err := end(ctx, p); err != nil {
			return err
		}
		p.Healed()
		return nil
	}
}

// unavailable is lasting, for a fault in which nobody acquires. What the servers have granted before it may still be on its way, and be
// handed over inside of a process for a moment.
func unavailable(begin step, least, most float64, end step) step {
	return unavailableAfter(func(p *play.Phase) time.Duration { return p.Environment.TTL / 4 }, begin, least, most, end)
}

// unavailableAfter is unavailable, where it takes so long after the fault has begun until nobody acquires.
func unavailableAfter(settled func(*play.Phase) time.Duration, begin step, least, most float64, end step) step {
	return lasting(func(ctx context.Context, p *play.Phase) error {
		if err := begin(ctx, p); err != nil {
			return err
		}
		if err := p.Sleep(ctx, settled(p)); err != nil {
			return err
		}
		p.Away()
		return nil
	}, least, most, func(ctx context.Context, p *play.Phase) error {
		p.Back()
		return end(ctx, p)
	})
}

// exactly is a time that is the same on every arrangement.
func exactly(d time.Duration) func(*play.Phase) time.Duration {
	return func(*play.Phase) time.Duration { return d }
}

// then is one script after another.
func then(first, second step) step {
	return func(ctx context.Context, p *play.Phase) error {
		if err := first(ctx, p); err != nil {
			return err
		}
		return second(ctx, p)
	}
}
