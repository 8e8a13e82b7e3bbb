//go:build linux || darwin

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/leader"
)

// keeper runs the command whenever this process leads.
type keeper struct {
	*runner
	end            context.CancelCauseFunc // ends everything; its exitError is lockport's exit code
	stopListening  func()                  // stops the listener for signals, which runs while no command does
	stopExplaining func()                  // stops explaining a long wait
	last           error                   // why the last term ended, if nothing follows
	led            bool                    // the lock was held since the last campaign began
	done           bool                    // the command of the last term ended before its lock
}

// keep runs the command again and again, until a signal ends lockport.
func (r *runner) keep(ctx context.Context) error {
	k := &keeper{runner: r, stopExplaining: func() {}}
	ctx, k.end = context.WithCancelCause(ctx)
	defer k.end(nil)
	k.stopListening = r.onSignal(k.end)
	err := r.open(ctx)
	if err == nil {
		err = libraryError(leader.Run(ctx, r.client, r.o.names[0], k.lead, leader.Observe(k.observe)))
	}
	k.stopListening()
	var exit *exitError
	if !errors.As(context.Cause(ctx), &exit) {
		return err
	}
	switch lost := errors.Is(k.last, lockport.ErrLost); {
	case lost && !k.done && exit.code != exitLost:
		return failf(exitLost, "%v", k.last)
	case !lost && k.led && (errors.Is(k.last, lockport.ErrUnavailable) || errors.Is(k.last, lockport.ErrRefused)): // of the last release
		k.c.say("%v; the lock expires within %v", k.last, k.o.ttl)
	}
	return exit
}

func (k *keeper) lead(ctx context.Context, term *lockport.Lock) error {
	k.led = true
	k.stopListening() // now the command gets the signals
	defer func() { k.stopListening = k.onSignal(k.end) }()
	if ctx.Err() != nil {
		return nil
	}
	k.done = false
	code, asked, err := k.supervise(term, []*lockport.Lock{term})
	if err != nil { // too many processes or open files, perhaps: a later term may start it
		return err
	}
	k.done = term.Err() == nil
	signal := k.keepMinHold(term)
	switch {
	case asked:
		k.end(&exitError{code: code})
	case signal != 0:
		k.end(&exitError{code: signalCode(signal)})
	case k.silent:
		return lockport.ErrSilence
	case k.done && code != exitOK:
		return errEnded(code)
	}
	return nil
}

func errEnded(code int) error { return fmt.Errorf("the command ended with status %d", code) }

func (k *keeper) observe(change leader.Change) {
	k.stopExplaining()
	k.stopExplaining = func() {}
	switch change.State {
	case leader.Campaigning:
		k.led = false
		k.stopExplaining = k.explainWaiting(context.Background())
	case leader.Idle:
		if change.Pause == 0 {
			k.last = change.Err
		} else {
			k.c.say("%v; retrying %s in %v", cmp.Or(change.Err, errEnded(exitOK)), k.o.title(), change.Pause.Round(time.Millisecond))
		}
	}
}
