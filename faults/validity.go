package faults

import (
	"context"
	"fmt"
)

// countValidity has replies come late, and looks whether the deadlines of a claim and of its first renewal are that much earlier.
func countValidity(ctx context.Context, p *Phase) error {
	w, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	late := p.World.TTL / 16 // there and back within what a renewal waits
	// What a client does but once, connecting for instance, is behind it.
	warm, err := w.Acquire(ctx, p.Name()+"-before", p.World.TTL)
	if err != nil {
		return err
	}
	if _, err := w.extended(ctx, warm); err != nil {
		return err
	}
	if err := warm.Release(ctx); err != nil {
		return err
	}
	p.Struck()
	for _, l := range w.Seat.Links {
		l.Delay(late)
	}
	h, err := w.Acquire(ctx, p.Name(), 2*p.World.TTL)
	if err != nil {
		return err
	}
	most := p.World.TTL - p.World.Margin - late
	if left := h.Deadline.Sub(Now()); left > most {
		return fmt.Errorf("a hold whose reply came %v late was got with a deadline in %v, which is more than %v", late, left, most)
	}
	e, err := w.extended(ctx, h)
	if err != nil {
		return err
	}
	if left := e.Deadline.Sub(e.At); left > most {
		return fmt.Errorf("a hold whose renewal's reply came %v late was extended with a deadline in %v, which is more than %v", late, left, most)
	}
	return h.Release(ctx)
}

// extended waits for the first renewal of a hold.
func (w *Worker) extended(ctx context.Context, h *Hold) (Event, error) {
	e, err := w.await(ctx, 0, func(e Event) bool { return e.Op == h.Op && (e.Kind == Extended || e.Kind == Told) })
	if err == nil && e.Kind == Told {
		err = fmt.Errorf("a hold was not renewed: %s", e.Err)
	}
	return e, err
}
