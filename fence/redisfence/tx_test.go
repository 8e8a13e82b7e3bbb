package redisfence

import (
	"context"
	"errors"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/fence"
)

// What is read and what is written is one transaction.
func TestTx(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	g := registers(t, p.fence, 5)
	require.NoError(t, p.client.Set(ctx, p.data, 100, 0).Err())
	var set *goredis.StatusCmd
	withdraw := func(between func()) ([]goredis.Cmder, error) {
		return g.Tx(ctx, func(tx *goredis.Tx, pipe goredis.Pipeliner) error {
			n, err := tx.Get(ctx, p.data).Int()
			if err != nil {
				return err
			}
			between()
			set = pipe.Set(ctx, p.data, n-10, 0)
			return pipe.Incr(ctx, p.data+"count").Err()
		}, p.data)
	}
	cmds, err := withdraw(func() {})
	require.NoError(t, err)
	require.Len(t, cmds, 2)
	require.Equal(t, "OK", set.Val())
	require.Equal(t, "90", p.get(p.data))

	_, err = withdraw(func() { require.NoError(t, p.client.Set(ctx, p.data, 50, 0).Err()) })
	require.ErrorIs(t, err, goredis.TxFailedErr)
	require.NotErrorIs(t, err, fence.ErrStale)
	require.Equal(t, "50", p.get(p.data))

	_, err = withdraw(func() { registers(t, p.fence, 5) })
	require.NoError(t, err, "an equal token changes nothing")
	_, err = withdraw(func() { registers(t, p.fence, 6) })
	errs.Stale(t, err, 5, 6)
	require.Equal(t, "40", p.get(p.data))
	require.Equal(t, "2", p.get(p.data+"count"))
}

func TestTxErrors(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	g := registers(t, p.fence, 5)
	mine := errors.New("mine")
	_, err := g.Tx(ctx, func(_ *goredis.Tx, pipe goredis.Pipeliner) error {
		pipe.Set(ctx, p.data, 1, 0)
		return mine
	})
	require.Equal(t, mine, err)
	require.PanicsWithValue(t, mine, func() {
		_, _ = g.Tx(ctx, func(_ *goredis.Tx, pipe goredis.Pipeliner) error {
			pipe.Set(ctx, p.data, 1, 0)
			panic(mine)
		})
	})
	cmds, err := g.Tx(ctx, func(*goredis.Tx, goredis.Pipeliner) error { return nil })
	require.NoError(t, err)
	require.Empty(t, cmds)
	require.Empty(t, p.get(p.data))

	// As ever in Redis, a command that fails does not stop the others.
	cmds, err = g.Tx(ctx, func(_ *goredis.Tx, pipe goredis.Pipeliner) error {
		pipe.Set(ctx, p.data, "x", 0)
		pipe.Incr(ctx, p.data)
		return nil
	})
	require.ErrorContains(t, err, "not an integer")
	require.Len(t, cmds, 2)
	require.NoError(t, cmds[0].Err())
	require.Equal(t, "x", p.get(p.data))

	// No connection is left behind, and none keeps watching.
	require.Eventually(t, func() bool { s := p.client.PoolStats(); return s.TotalConns == s.IdleConns }, soon, 5e6)
	require.NoError(t, p.client.Watch(ctx, func(tx *goredis.Tx) error {
		registers(t, p.fence, 6)
		_, err := tx.TxPipelined(ctx, func(pipe goredis.Pipeliner) error { return pipe.Set(ctx, p.data, "y", 0).Err() })
		return err
	}, p.data))
}

// The transaction is guarded also where the function has ended the watching: at the last moment at which a newer holder can register.
func TestTxWatchesAgain(t *testing.T) {
	for how, end := range map[string]func(ctx context.Context, tx *goredis.Tx, key string) error{
		"nothing": func(context.Context, *goredis.Tx, string) error { return nil },
		"transaction": func(ctx context.Context, tx *goredis.Tx, key string) error {
			_, err := tx.TxPipelined(ctx, func(pipe goredis.Pipeliner) error { return pipe.Set(ctx, key, "own", 0).Err() })
			return err
		},
		"unwatch": func(ctx context.Context, tx *goredis.Tx, _ string) error { return tx.Unwatch(ctx).Err() },
	} {
		for _, when := range []string{"while the function runs", "just before EXEC"} {
			t.Run(how+" "+when, func(t *testing.T) {
				p := newPlace(t)
				ctx := t.Context()
				g := registers(t, p.fence, 5)
				newer := p.at(p.server.Addr())
				before := &beforeExec{do: func() { registers(t, newer, 6) }}
				_, err := g.Tx(ctx, func(tx *goredis.Tx, pipe goredis.Pipeliner) error {
					require.NoError(t, end(ctx, tx, "other"+p.data))
					if when == "just before EXEC" {
						tx.AddHook(before)
					} else {
						before.do()
					}
					return pipe.Set(ctx, p.data, "late", 0).Err()
				})
				errs.Stale(t, err, 5, 6)
				require.Empty(t, p.get(p.data))
				require.Eventually(t, func() bool { s := p.client.PoolStats(); return s.TotalConns == s.IdleConns }, soon, 5e6)
			})
		}
	}
}

// beforeExec calls do before a transaction is sent.
type beforeExec struct{ do func() }

func (b *beforeExec) DialHook(next goredis.DialHook) goredis.DialHook          { return next }
func (b *beforeExec) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }
func (b *beforeExec) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		b.do()
		return next(ctx, cmds)
	}
}

// The function runs on the caller's goroutine, and not at all if the token is an old one.
func TestTxOfAnOldHolderReadsNothing(t *testing.T) {
	p := newPlace(t)
	g := registers(t, p.fence, 5)
	registers(t, p.fence, 6)
	_, err := g.Tx(t.Context(), func(*goredis.Tx, goredis.Pipeliner) error {
		panic("called")
	})
	errs.Stale(t, err, 5, 6)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.Tx(ctx, func(*goredis.Tx, goredis.Pipeliner) error { panic("called") })
	require.ErrorIs(t, err, context.Canceled)
}
