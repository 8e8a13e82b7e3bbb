package faults

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/play"
)

// step is a part of an injection or a script.
type step func(ctx context.Context, p *play.Phase) error

// inOrder carries out steps, one after the other, until one fails.
func inOrder(steps ...step) step {
	return func(ctx context.Context, p *play.Phase) error {
		for _, s := range steps {
			if err := s(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
}

func injected(_ context.Context, p *play.Phase) error { p.Injected(); return nil }

func healed(_ context.Context, p *play.Phase) error { p.Healed(); return nil }

// pause waits for between least and most TTLs.
func pause(least, most float64) step {
	return func(ctx context.Context, p *play.Phase) error { return p.Sleep(ctx, p.BetweenTTLs(least, most)) }
}

// lasting begins a fault of the servers, lets it last for between least and most TTLs, and ends it.
func lasting(begin step, least, most float64, end step) step {
	return inOrder(injected, begin, pause(least, most), end, healed)
}

// unavailable is lasting, for a fault in which nobody acquires. What the servers have granted before it may still be on its way, and be handed over inside a
// process for a moment.
func unavailable(begin step, least, most float64, end step) step {
	return unavailableAfter(func(p *play.Phase) time.Duration { return p.Environment.TTL / 4 }, begin, least, most, end)
}

// unavailableAfter is unavailable, where it takes so long after the fault has begun until nobody acquires.
func unavailableAfter(settled func(*play.Phase) time.Duration, begin step, least, most float64, end step) step {
	return inOrder(injected, begin,
		func(ctx context.Context, p *play.Phase) error { return p.Sleep(ctx, settled(p)) },
		func(_ context.Context, p *play.Phase) error { p.Away(); return nil },
		pause(least, most),
		func(_ context.Context, p *play.Phase) error { p.Back(); return nil },
		end, healed)
}

// exactly is a time that is the same in every environment.
func exactly(d time.Duration) func(*play.Phase) time.Duration {
	return func(*play.Phase) time.Duration { return d }
}
