package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/internal/fencecheck"
)

// standard is a transaction of database/sql.
type standard struct {
	f  *Fence
	tx *sql.Tx
}

func (s standard) register(ctx context.Context, name []byte, token int64) (seen int64, err error) {
	if s.f.dialect == Postgres {
		err = s.tx.QueryRowContext(ctx, s.f.guard, name, token).Scan(&seen)
		return seen, err
	}
	result, err := s.tx.ExecContext(ctx, s.f.guard, name, token, token)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// rollback waits for the server until ctx ends, and in any case until the transaction cannot be committed any more. If the connection broke, the
// transaction ended with it.
func (s standard) rollback(ctx context.Context) {
	done := make(chan error, 2)
	for range 2 { // one of them finds the transaction ended by the other, and returns at once
		go func() { done <- s.tx.Rollback() }()
	}
	<-done
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// commit returns when ctx ends at the latest. The transaction may still be committed then.
func (s standard) commit(ctx context.Context) error {
	_, err := fencecheck.Await(ctx, func() (any, error) { return nil, s.tx.Commit() })
	return err
}

// native is a transaction of pgx.
type native struct {
	f  *Fence
	tx pgx.Tx
}

func (n native) register(ctx context.Context, name []byte, token int64) (seen int64, err error) {
	if n.f.dialect != Postgres {
		return 0, fmt.Errorf("%w: a pgx transaction needs New(Postgres, …)", errors.ErrUnsupported)
	}
	err = n.tx.QueryRow(ctx, n.f.guard, name, token).Scan(&seen)
	return seen, err
}

func (n native) commit(ctx context.Context) error { return n.tx.Commit(ctx) }

// rollback closes the connection if ctx has ended; that ends the transaction too.
func (n native) rollback(ctx context.Context) { _ = n.tx.Rollback(ctx) }
