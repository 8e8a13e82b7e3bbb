package faults

import (
	"context"
	"fmt"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// removals is how often a lock is taken away in one play.
const removals = 8

// removed notes that the lock of a script is about to go.
func removed(p *play.Phase) { p.Note("%s%s", history.Removed, p.Name()) }

// removedOpenly ends claims of a worker at the server, by end, while its network is well: it must be told.
func removedOpenly(end func(ctx context.Context, p *play.Phase, name string) error) func(ctx context.Context, p *play.Phase) error {
	return func(ctx context.Context, p *play.Phase) error {
		w, err := p.Worker(ctx)
		if err != nil {
			return err
		}
		for range removals {
			had, err := w.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
			if err != nil {
				return err
			}
			if err := p.Sleep(ctx, p.Between(0, p.Environment.TTL/2)); err != nil { // at any moment of its renewals
				return err
			}
			p.Injected()
			removed(p)
			if err := end(ctx, p, p.Name()); err != nil {
				return err
			}
			if err := disbelieves(ctx, had); err != nil {
				return err
			}
		}
		return nil
	}
}

// disbelieves waits until a worker knows that its hold has ended.
func disbelieves(ctx context.Context, had *play.Hold) error {
	return environment.Eventually(ctx, func(ctx context.Context) error {
		valid, err := had.Valid(ctx)
		if valid {
			err = fmt.Errorf("%s still believes to hold %s", had.Worker.Name, had.Name)
		}
		return err
	})
}

// remove takes a lock away as an operator does.
func remove(ctx context.Context, p *play.Phase, name string) error {
	return p.Environment.Remove(ctx, name)
}
