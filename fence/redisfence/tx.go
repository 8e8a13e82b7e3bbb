package redisfence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/fencecheck"
)

// Tx is for ordinary commands in one transaction: it watches the fence and keys (WATCH), calls fn, and sends what that put into pipe (MULTI, EXEC),
// which has no effect if a greater token was registered, or keys were written to, meanwhile. fn reads with tx, on which it must not write; it runs
// once, on the caller's goroutine. If it returns an error, that is returned, and nothing is sent. What it wrote with tx would be there at once, and
// not be guarded; a transaction of tx's own is refused.
//
// The error matches goredis.TxFailedErr if a key was written to by somebody else, or the lock of RegisterLock was renewed: call Tx again. Otherwise
// it is the first error of a command; as ever in Redis, the other commands have had their effect. The commands are valid if there is no other error
// than such a one.
func (g *Guard) Tx(ctx context.Context, fn func(tx *goredis.Tx, pipe goredis.Pipeliner) error, keys ...string) ([]goredis.Cmder, error) {
	if err := ctx.Err(); err != nil {
		return nil, g.explain("watch", false, err)
	}
	t := &transaction{g: g, begun: make(chan *goredis.Tx), filled: make(chan goredis.Pipeliner, 1), done: make(chan struct{})}
	// go-redis does not heed contexts while it reads. What it does is left to a goroutine, all but fn.
	go t.run(ctx, g.watched(keys))
	defer close(t.filled)
	select {
	case tx := <-t.begun:
		pipe := tx.TxPipeline()
		if err := fn(tx, queue{pipe}); err != nil {
			return nil, err
		}
		t.filled <- pipe
	case <-t.done:
		return nil, t.err
	case <-ctx.Done():
		return nil, g.explain("watch", false, ctx.Err())
	}
	select {
	case <-t.done:
		return t.cmds, t.err
	case <-ctx.Done():
		return nil, g.explain("exec", true, ctx.Err())
	}
}

func (g *Guard) watched(keys []string) []string {
	all := append([]string{g.fence.key}, keys...)
	if g.lock != nil {
		all = append(all, g.lock.Key)
	}
	return all
}

// transaction is a call of Tx.
type transaction struct {
	g      *Guard
	begun  chan *goredis.Tx       // all is watched, and as it should be
	filled chan goredis.Pipeliner // what to send; closed: nothing
	done   chan struct{}          // closed when what follows is there
	cmds   []goredis.Cmder
	err    error
}

func (t *transaction) run(ctx context.Context, keys []string) {
	defer close(t.done)
	judged := false
	err := t.g.fence.client.Watch(ctx, func(tx *goredis.Tx) error {
		if t.err = t.g.look(ctx, tx); t.err != nil {
			judged = true
			return t.err
		}
		var keep watching
		tx.AddHook(&keep)
		keep.Store(true)
		defer keep.Store(false)
		select {
		case t.begun <- tx:
		case <-ctx.Done():
			return ctx.Err()
		}
		pipe, ok := <-t.filled
		if !ok {
			return nil
		}
		keep.Store(false)
		t.exec(ctx, tx, pipe)
		judged = true
		return t.err
	}, keys...)
	if !judged && err != nil {
		t.err = t.g.explain("watch", false, err)
	}
}

// exec sends the transaction.
func (t *transaction) exec(ctx context.Context, tx *goredis.Tx, pipe goredis.Pipeliner) {
	cmds, err := pipe.Exec(ctx)
	switch {
	case err == nil:
		t.cmds = cmds
	case errors.Is(err, goredis.TxFailedErr):
		if t.err = t.g.look(ctx, tx); t.err == nil {
			t.err = err
		}
	default:
		t.cmds, t.err = cmds, t.g.explain("exec", true, cause(cmds, err))
	}
}

// cause is the error of the command that made Redis discard a transaction, or err.
func cause(cmds []goredis.Cmder, err error) error {
	if goredis.IsExecAbortError(err) {
		for _, c := range cmds {
			if first := c.Err(); first != nil && !goredis.IsExecAbortError(first) {
				return first
			}
		}
	}
	return err
}

// look reads whether the token, and the lock, are there.
func (g *Guard) look(ctx context.Context, tx *goredis.Tx) error {
	keys := []string{g.fence.key}
	if g.lock != nil {
		keys = append(keys, g.lock.Key)
	}
	values, err := tx.MGet(ctx, keys...).Result()
	switch {
	case err != nil:
		return g.explain("watch", false, err)
	case len(values) != len(keys):
		return fmt.Errorf("redisfence: MGET of %d keys gave %d values", len(keys), len(values))
	case values[0] == nil:
		return g.refused(fencecheck.Missing)
	case values[0] != g.text:
		return g.refused(fmt.Sprint(values[0]))
	case g.lock != nil && values[1] != g.lock.Value:
		return g.lost()
	}
	return nil
}

// watching, while it is true, has go-redis refuse what would end the watching before Tx has sent its transaction, which would not be guarded then.
type watching struct{ atomic.Bool }

// DialHook implements goredis.Hook.
func (w *watching) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (w *watching) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if w.ends(cmd) {
			return errNotYours
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements goredis.Hook. A transaction of go-redis comes here too, with MULTI and EXEC.
func (w *watching) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		if w.ends(cmds...) {
			for _, c := range cmds {
				c.SetErr(errNotYours)
			}
			return errNotYours
		}
		return next(ctx, cmds)
	}
}

func (w *watching) ends(cmds ...goredis.Cmder) bool {
	return w.Load() && slices.ContainsFunc(cmds, func(c goredis.Cmder) bool {
		return slices.Contains([]string{"multi", "exec", "discard", "unwatch", "reset"}, c.Name())
	})
}

// queue is a pipeline that only Tx sends: what is sent twice would not be guarded the second time.
type queue struct{ goredis.Pipeliner }

var errNotYours = errors.New("redisfence: the transaction is sent by Tx when its function has returned")

// Exec implements goredis.Pipeliner. It is an error.
func (q queue) Exec(context.Context) ([]goredis.Cmder, error) { return nil, errNotYours }

// Pipelined implements goredis.Pipeliner: what fn adds goes into the transaction.
func (q queue) Pipelined(_ context.Context, fn func(goredis.Pipeliner) error) ([]goredis.Cmder, error) {
	return nil, fn(q)
}

// TxPipelined implements goredis.Pipeliner, as Pipelined does.
func (q queue) TxPipelined(ctx context.Context, fn func(goredis.Pipeliner) error) ([]goredis.Cmder, error) {
	return q.Pipelined(ctx, fn)
}

// Pipeline implements goredis.Pipeliner: it is q.
func (q queue) Pipeline() goredis.Pipeliner { return q }

// TxPipeline implements goredis.Pipeliner: it is q.
func (q queue) TxPipeline() goredis.Pipeliner { return q }
