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
	end           context.CancelCauseFunc // ends everything; its exitError is lockport's exit code
	stopListening func()                  // stops the listener for signals, which runs while no command does
	last          error                   // why the last term or campaign ended, if nothing follows
	exposed       bool                    // the command of the last term ran until the release
}

// keep runs the command again and again, until a signal ends lockport.
func (r *runner) keep(ctx context.Context) error {
	k := &keeper{runner: r}
	ctx, k.end = context.WithCancelCause(ctx)
	defer k.end(nil)
	k.stopListening = r.onSignal(k.end)
	err := r.open(ctx)
	if err == nil {
		err = libraryError(leader.Run(ctx, explainer{r.client, r.c}, r.o.names[0], k.lead, leader.Observe(k.observe)))
	}
	k.stopListening()
	exit, ended := errors.AsType[*exitError](context.Cause(ctx))
	if !ended {
		return err
	}
	if release, ok := errors.AsType[*lockport.Error](k.last); ok && release.Op == "release" { // otherwise the campaign failed
		return exitWith(k.afterRelease(k.last, exit.code, k.exposed))
	}
	return exit
}

func (k *keeper) lead(ctx context.Context, term *lockport.Lock) error {
	k.stopListening() // now the command gets the signals
	defer func() { k.stopListening = k.onSignal(k.end) }()
	if ctx.Err() != nil {
		return nil
	}
	code, asked, err := k.supervise(term, []*lockport.Lock{term})
	if err != nil { // too many processes or open files, perhaps: a later term may start it
		return err
	}
	held := term.Err() == nil
	kept, signal := k.keepMinHold(term)
	k.exposed = !kept
	switch {
	case asked:
		k.end(exitWith(code))
	case signal != 0:
		k.end(exitWith(signalCode(signal)))
	case k.silent:
		return lockport.ErrSilence
	case held && code != exitOK:
		return errEnded(code)
	}
	return nil
}

func errEnded(code int) error { return fmt.Errorf("the command ended with status %d", code) }

func (k *keeper) observe(change leader.Change) {
	switch {
	case change.State == leader.Campaigning:
		k.exposed = false
	case change.State != leader.Idle:
	case change.Pause == 0:
		k.last = change.Err
	default:
		k.c.say("%v; retrying %s in %v", cmp.Or(change.Err, errEnded(exitOK)), quoted(k.o.names), change.Pause.Round(time.Millisecond))
	}
}
