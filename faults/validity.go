package faults

import (
	"context"
	"fmt"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// countValidity has replies come late, and looks whether the deadlines of a claim and of its first renewal are that much earlier.
func countValidity(ctx context.Context, p *play.Phase) error {
	w, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	late := p.Environment.TTL / 16 // there and back within what a renewal waits
	// What a client does but once, connecting for instance, is behind it.
	warm, err := w.Acquire(ctx, p.Name()+"-before", p.Environment.TTL)
	if err != nil {
		return err
	}
	if _, err := extended(ctx, w, warm); err != nil {
		return err
	}
	if err := warm.Release(ctx); err != nil {
		return err
	}
	p.Injected()
	for _, l := range w.Endpoint.Links {
		l.Delay(late)
	}
	h, err := w.Acquire(ctx, p.Name(), 2*p.Environment.TTL)
	if err != nil {
		return err
	}
	most := p.Environment.TTL - p.Environment.Margin - late
	if left := h.Deadline.Sub(history.Now()); left > most {
		return fmt.Errorf("a hold whose reply came %v late was got with a deadline in %v, which is more than %v", late, left, most)
	}
	e, err := extended(ctx, w, h)
	if err != nil {
		return err
	}
	if left := e.Deadline.Sub(e.At); left > most {
		return fmt.Errorf("a hold whose renewal's reply came %v late was extended with a deadline in %v, which is more than %v", late, left, most)
	}
	return h.Release(ctx)
}

// extended waits for the first renewal of a hold.
func extended(ctx context.Context, w *play.Worker, h *play.Hold) (history.Event, error) {
	e, err := w.Await(ctx, 0, func(e history.Event) bool {
		return e.Op == h.Op && (e.Kind == history.Extended || e.Kind == history.Told)
	})
	if err == nil && e.Kind == history.Told {
		err = fmt.Errorf("a hold was not renewed: %s", e.Err)
	}
	return e, err
}
