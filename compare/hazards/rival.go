package hazards

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// answeredSince waits until somebody who asks for the lock all the time has been told who has it, by an attempt begun after an instant, or has it; or the
// holder has been told that it has not. Who only gets errors has not seen that the lock is still taken.
func (p *trial) answeredSince(ctx context.Context, rival *play.Worker, held *play.Hold, since history.Instant) error {
	for limit := time.Now().Add(lasting); ; {
		h, err := newHistory(p.Events())
		if err != nil {
			return err
		}
		for _, a := range attempts(h) {
			if a.worker == rival.Name && a.name == p.Name() && (a.got != 0 || a.asked > since && a.class == history.ClassHeld) {
				return nil
			}
		}
		if p.event(held.Worker, held.Op, history.Told).At != 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s was not told within %v whether somebody has the lock", lane(rival.Name), lasting)
		}
		if err := p.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// asksAllTheTime has a worker try to get the lock until it does, or until stop is called, which returns what it got.
func (p *trial) asksAllTheTime(ctx context.Context, w *play.Worker) (stop func() *play.Hold) {
	ctx, cancel := context.WithCancel(ctx)
	var got *play.Hold
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil && got == nil {
			got, _ = w.TryAcquire(ctx, p.Name(), time.Second)
			_ = p.Sleep(ctx, 20*time.Millisecond)
		}
	})
	return func() *play.Hold {
		cancel()
		asking.Wait()
		return got
	}
}
