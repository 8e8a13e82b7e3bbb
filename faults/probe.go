package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/play"
)

// probeEvery is how long after an attempt that failed the next is made.
const probeEvery = 5 * time.Millisecond

// probeUntilExpiry stops a holder and has another worker try to get its lock again and again: those who wait look only when it should be free, so
// that a lock that is granted a little too early is nobody's in a storm. The holder is continued at once when the other has the lock.
func probeUntilExpiry(ctx context.Context, p *play.Phase) error {
	holder, rival, err := p.Two(ctx)
	if err != nil {
		return err
	}
	if _, err := holder.Acquire(ctx, p.Name(), p.Environment.TTL); err != nil {
		return err
	}
	p.Injected()
	if err := holder.Stop(); err != nil {
		return err
	}
	limit := play.Patience * p.Cell.RecoveryIn(p.Environment.Environment)
	for begun := time.Now(); ; {
		h, err := rival.TryAcquire(ctx, p.Name(), p.Environment.TTL)
		if err == nil {
			if err := holder.Resume(); err != nil {
				return err
			}
			return h.Release(ctx)
		}
		if time.Since(begun) > limit {
			return fmt.Errorf("the lock of a stopped process was not free after %v: %w", limit, err)
		}
		if err := p.Sleep(ctx, probeEvery); err != nil {
			return err
		}
	}
}
