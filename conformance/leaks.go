package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// leakGrace is how long what a case used may take to go away after it closed everything.
const leakGrace = 4 * time.Second

// leaks looks for what a case that passed left behind.
func (e *Env) leaks(c Case, conns int) error {
	// The case's own context may have ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.r.ttl*2+4*e.r.grace)
	defer cancel()

	var left string
	if !poll(ctx, e.r.grace, func() bool { left = labelled(e.prefix); return left == "" }) {
		return fmt.Errorf("P8 no leaks: when all is closed, no goroutine may be left; there are:\n%s", left)
	}
	if f := e.cfg.Faults.Leftovers; f != nil {
		var keys []string
		var err error
		// A claim whose backend was closed ends like that of a dead process.
		if !poll(ctx, e.r.ttl+e.r.grace, func() bool { keys, err = f(ctx, e.prefix); return err == nil && len(keys) == 0 }) {
			if err != nil {
				return fmt.Errorf("Faults.Leftovers: %w", err)
			}
			return fmt.Errorf("P8 no leaks: when all is closed, the server must keep nothing for longer than the TTL; it keeps: %s",
				strings.Join(keys, ", "))
		}
	}
	if (c.exclusive() || c.faulty()) && e.cfg.Faults.Conns != nil {
		var now int
		var err error
		if !poll(ctx, e.r.grace, func() bool { now, err = e.conns(); return err == nil && now <= conns }) {
			if err != nil {
				return fmt.Errorf("Faults.Conns: %w", err)
			}
			return fmt.Errorf("P8 no leaks: when all is closed, no connection may be left; there were %d before the case, now %d", conns, now)
		}
	}
	return nil
}

// conns is the number of connections at the server, 0 where it cannot be known.
func (e *Env) conns() (int, error) {
	if f := e.cfg.Faults.Conns; f != nil {
		return f(context.WithoutCancel(e.ctx))
	}
	return 0, nil
}

// poll asks ok again and again until it is true, or d has passed, or ctx has ended.
func poll(ctx context.Context, d time.Duration, ok func() bool) bool {
	end := time.Now().Add(d)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ok()
		}
	}
}
