package worlds

import (
	"context"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// jumpClock sets the clock of a server forward by d, or back. A *servers.NotInstalled says what is missing for that.
func jumpClock(r *servers.Redis, d time.Duration) error {
	if err := servers.ClockInstalled(); err != nil {
		return err
	}
	return r.JumpClock(d)
}

// clocksBack sets the clocks of servers back just after a holder has died, each by between least TTLs and one.
func clocksBack(which func(*faults.Phase) []*servers.Redis, least float64) step {
	return func(ctx context.Context, p *faults.Phase) error {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		p.Struck()
		if err := w.Kill(); err != nil {
			return err
		}
		for _, r := range which(p) {
			if err := jumpClock(r, -p.BetweenTTLs(least, 1)); err != nil {
				return err
			}
		}
		p.Mended()
		return p.Sleep(ctx, p.World.TTL)
	}
}
