package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/lockport/lockport/internal/session"
)

// asking puts one question, and returns the rows of the answer.
type asking func(query string) ([][]sqldriver.Value, error)

// lookAtLocks opens a connection to look at locks, and runs f with it. It is none of those that hold locks: who looks makes no table, deletes no rows, and
// needs no privilege but that to read.
func (b *Backend) lookAtLocks(ctx context.Context, f func(ask asking) error) error {
	c, _, err := b.server.open(ctx, "", nil, (*conn).setUpToLook)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(func(query string) ([][]sqldriver.Value, error) { return c.put(ctx, query) })
}

// put puts one question on a session that is nobody else's. The client library's connection belongs to the session's goroutine.
func (c *conn) put(ctx context.Context, query string) ([][]sqldriver.Value, error) {
	q := &question{query: query}
	op := &session.Op{Kind: session.Ask, Ask: q}
	done := make(chan error, 1)
	c.Do(ctx, []*session.Op{op}, func(err error) { done <- err })
	select {
	case err := <-done:
		if err = errors.Join(err, op.Err); err != nil {
			return nil, classify(ctx, err)
		}
		return q.rows, nil
	case <-ctx.Done():
		return nil, classify(ctx, ctx.Err())
	}
}
