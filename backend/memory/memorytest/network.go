package memorytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// errBroken is why a call under way failed.
var errBroken = errors.New("the connection broke")

// kinds are the kinds of the methods; others are Look.
var kinds = map[string]Call{
	"TryAcquire": Claim, "Wait": Claim, "Requeue": Claim, "Attach": Claim, "RenewBatch": Renew, "Detach": Renew, "Release": Release, "Abandon": Abandon,
}

// Call implements memory.Network.
func (f *Faults) Call(ctx context.Context, method string, serve func(context.Context) error) error {
	err := f.call(ctx, kinds[method], serve)
	if slices.Contains([]string{"Check", "Inspect", "List"}, method) && errors.Is(err, driver.ErrUnknown) { // they change nothing
		err = fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, cmp.Or(ctx.Err(), errBroken))
	}
	return err
}

// call carries a call. The server checks the context when the call arrives. If it has ended by then, the call has no effect, so that the claim can be
// abandoned. Later, the call takes effect even if its connection breaks before the reply.
func (f *Faults) call(ctx context.Context, kind Call, serve func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	met, conn := f.take(kind)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(conn, func() { cancel(errBroken) })()
	if err := f.travel(ctx, met.delay); err != nil {
		return err
	}
	if _, _, down := f.state(); met.err != nil || down != nil {
		return cmp.Or(met.err, down)
	}
	if met.cut { // also while it waits at the server
		cut := sync.OnceFunc(f.Cut)
		defer cut()
		ctx = arriving{ctx, func() { go cut() }}
	}
	err := serve(ctx)
	_, delay, _ := f.state()
	if broken := f.travel(ctx, delay); broken != nil {
		return broken
	}
	switch {
	case met.loseReply, met.cut:
		return unknown(errors.New("the reply was lost"))
	case ctx.Err() != nil && errors.Is(err, driver.ErrUnknown): // ctx ended a wait
		return unknown(context.Cause(ctx))
	}
	return err
}

// arriving is the context of a call that Faults.CutAfter cuts. The server calls Err when the call arrives; a cut before that would prevent its effect.
type arriving struct {
	context.Context
	arrived func()
}

func (a arriving) Err() error {
	err := a.Context.Err()
	a.arrived()
	return err
}

// Tell implements memory.Network.
func (f *Faults) Tell(callback func()) {
	f.mu.Lock()
	cutOff := f.isCutOff()
	if cutOff {
		f.undelivered = append(f.undelivered, callback)
	}
	f.mu.Unlock()
	if !cutOff {
		callback()
	}
}

// travel lets a request or a reply wait for the end of Pause, and then for d.
func (f *Faults) travel(ctx context.Context, d time.Duration) error {
	for paused, _, _ := f.state(); paused != nil; paused, _, _ = f.state() {
		if err := block(ctx, paused); err != nil {
			return err
		}
	}
	if d <= 0 {
		return nil
	}
	return block(ctx, time.After(d))
}

func block[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return unknown(context.Cause(ctx))
	}
}

func unknown(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnknown, err) }
