package redisfence

import (
	"context"
	"errors"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/fencecheck"
)

// Tx is for ordinary commands in one transaction: it watches the fence and keys (WATCH), calls fn, and sends what that put into pipe (MULTI, EXEC),
// which has no effect if a greater token was registered, or keys were written to, meanwhile. fn runs once, on the caller's goroutine. It reads with tx.
// It must not write with tx, nor execute a transaction of its own: such a write would have its effect at once, and need not be guarded. If fn returns an
// error, Tx returns that and sends nothing.
//
// The error matches goredis.TxFailedErr if a key was written to by somebody else, or the lock of RegisterLock was renewed: call Tx again. Otherwise
// it is the first error of a command; as ever in Redis, the other commands have had their effect. The commands are valid if there is no other error
// than such a one.
func (g *Guard) Tx(ctx context.Context, fn func(tx *goredis.Tx, pipe goredis.Pipeliner) error, keys ...string) ([]goredis.Cmder, error) {
	if err := ctx.Err(); err != nil {
		return nil, g.explain("watch", false, err)
	}
	var (
		begun  = make(chan *goredis.Tx)          // all is watched, and as it should be
		filled = make(chan goredis.Pipeliner, 1) // what to send; closed: nothing
		done   = make(chan struct{})
		cmds   []goredis.Cmder
		result error
	)
	// go-redis does not heed contexts while it reads. So a goroutine, which may be left behind, does everything but fn.
	go func() {
		defer close(done)
		err := g.fence.client.Watch(ctx, func(tx *goredis.Tx) error {
			if result = g.look(ctx, tx); result != nil {
				return nil
			}
			select {
			case begun <- tx:
			case <-ctx.Done():
				return ctx.Err()
			}
			if pipe, ok := <-filled; ok {
				cmds, result = g.exec(ctx, tx, pipe)
			}
			return nil
		}, append(g.keys(), keys...)...)
		if result == nil && err != nil {
			result = g.explain("watch", false, err)
		}
	}()
	defer close(filled)
	select {
	case tx := <-begun:
		pipe := tx.TxPipeline()
		if err := fn(tx, pipe); err != nil {
			return nil, err
		}
		filled <- pipe
	case <-done:
		return nil, result
	case <-ctx.Done():
		return nil, g.explain("watch", false, ctx.Err())
	}
	select {
	case <-done:
		return cmds, result
	case <-ctx.Done():
		return nil, g.explain("exec", true, ctx.Err())
	}
}

// exec sends the transaction. It watches the fence once more, in case fn ended the watching.
func (g *Guard) exec(ctx context.Context, tx *goredis.Tx, pipe goredis.Pipeliner) ([]goredis.Cmder, error) {
	if err := tx.Watch(ctx, g.keys()...).Err(); err != nil {
		return nil, g.explain("watch", false, err)
	}
	if err := g.look(ctx, tx); err != nil {
		return nil, err
	}
	cmds, err := pipe.Exec(ctx)
	switch {
	case err == nil:
		return cmds, nil
	case errors.Is(err, goredis.TxFailedErr):
		if why := g.look(ctx, tx); why != nil {
			return nil, why
		}
		return nil, err
	case goredis.IsExecAbortError(err): // the command that made Redis discard the transaction says more
		for _, c := range cmds {
			if first := c.Err(); first != nil && !goredis.IsExecAbortError(first) {
				err = first
				break
			}
		}
	}
	return cmds, g.explain("exec", true, err)
}

// keys are the fence's, and the lock's.
func (g *Guard) keys() []string {
	if g.lock == nil {
		return []string{g.fence.Key()}
	}
	return []string{g.fence.Key(), g.lock.Key}
}

// look reads whether the token, and the lock, are there.
func (g *Guard) look(ctx context.Context, tx *goredis.Tx) error {
	values, err := tx.MGet(ctx, g.keys()...).Result()
	switch {
	case err != nil:
		return g.explain("watch", false, err)
	case values[0] == nil:
		return g.fence.place.Refuse(g.token, fencecheck.Missing)
	case values[0] != g.fence.place.Format(g.token):
		return g.fence.place.Refuse(g.token, fmt.Sprint(values[0]))
	case g.lock != nil && values[1] != g.lock.Value:
		return g.fence.place.Lost(g.lock.Key)
	}
	return nil
}
