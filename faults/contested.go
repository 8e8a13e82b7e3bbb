package faults

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/play"
)

// redisTries is within how many plays of a script two must believe to hold the lock. One is enough, unless the machine is so busy that the
// older holder's next renewal, a quarter of the TTL away at least, comes first.
const redisTries = 5

// contested makes one worker hold one more lock, and another try to get that lock all the time, while a fault is injected. Of the workers of a storm hardly
// any holds a lock at the moment that counts.
func contested(inject step) step {
	return func(ctx context.Context, p *play.Phase) error {
		keeper, rival, err := p.Two(ctx)
		if err != nil {
			return err
		}
		if _, err := keeper.Acquire(ctx, p.Name(), p.Environment.TTL); err != nil {
			return err
		}
		trying, stop := context.WithCancel(ctx)
		defer stop()
		var tries sync.WaitGroup
		tries.Go(func() {
			for trying.Err() == nil {
				if _, err := rival.TryAcquire(trying, p.Name(), p.Environment.TTL); err == nil {
					return
				}
				_ = p.Sleep(trying, 5*time.Millisecond)
			}
		})
		err = errors.Join(inject(ctx, p), p.Sleep(ctx, p.Environment.TTL/2)) // time for the rival to get what it ought not to
		stop()
		tries.Wait()
		return errors.Join(err, keeper.Kill(), rival.Kill())
	}
}

// couple is who a script is about: older has the lock, newer is to get it too.
type couple struct {
	older, newer *play.Worker
	held         *play.Hold // older's
}

// overtaken has one worker acquire the lock, does damage to the servers, has another worker acquire it too, and then has both go on. It
// returns when the older one has learned of it, or its hold has ended, and the lock is free.
func overtaken(damage func(ctx context.Context, p *play.Phase, c *couple) error) step {
	return func(ctx context.Context, p *play.Phase) (err error) {
		c := &couple{}
		if c.older, c.newer, err = p.Two(ctx); err != nil {
			return err
		}
		return c.play(ctx, p, damage)
	}
}

func (c *couple) play(ctx context.Context, p *play.Phase, damage func(ctx context.Context, p *play.Phase, c *couple) error) (err error) {
	if c.held, err = c.older.Acquire(ctx, p.Name(), p.Environment.TTL); err != nil {
		return err
	}
	p.Injected()
	if err := damage(ctx, p, c); err != nil {
		return err
	}
	p.Healed()
	taken, err := c.newer.AcquireAtLast(ctx, p.Name(), 2*p.Environment.TTL, 10*p.Environment.TTL)
	if err != nil {
		return err
	}
	if err := p.Both(ctx, c.held, taken); err != nil {
		return err
	}
	if err := disbelieves(ctx, c.held); err != nil {
		return err
	}
	return taken.Release(ctx)
}
