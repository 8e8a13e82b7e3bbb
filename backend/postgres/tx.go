package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// NewBackendURL makes a backend of a URL, as lockport.Open does, without I/O: for transaction-scoped locks in programs that have no pgx pool.
func NewBackendURL(rawURL string) (*Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return nil, &lockport.Error{Op: "new", Backend: backendName, Err: err}
	}
	pg, ok := b.(*Backend)
	if !ok {
		return nil, &lockport.Error{Op: "new", Backend: backendName, Err: fmt.Errorf("%w: the URL is one of the backend %s", driver.ErrRefused, b.Capabilities().Backend)}
	}
	return pg, nil
}

// tokensPerGrant is by what a client of lockport multiplies a driver's tokens, so that those of both kinds of locks are of one order.
const tokensPerGrant = driver.TokensPerGrant

// TryLockTx takes the lock on name for the caller's transaction tx, if nobody has it: lockport.ErrHeld. The server gives it back when tx commits or is rolled
// back, or with the savepoint behind which it was taken, and nothing else does. It is the same lock as a client's of the same database and options, and
// the token, 0 with Options.TransactionTokens, is of the same order. Unlike a client's locks, it is granted again to a transaction that has it already.
//
// It uses tx's connection alone, save for the first call of a Backend and the first after a crash of the server, which open a session to look after
// the sequence. An error of the server other than ErrHeld leaves tx aborted, as any failed statement. If ctx ends while the server is asked, pgx closes
// the connection, and tx is lost. tx must be able to write: a token is drawn from a sequence. Safe for concurrent use on distinct transactions.
func (b *Backend) TryLockTx(ctx context.Context, tx pgx.Tx, name string) (lockport.Token, error) {
	return b.lockTx(ctx, pgxQuery(tx), name, true)
}

// LockTx is TryLockTx, but waits for the lock in the server's queue. What bounds the wait without the loss of the connection is the setting lock_timeout of
// the transaction ("SET LOCAL lock_timeout = '5s'"): it ends with lockport.ErrHeld, and tx is aborted up to its last savepoint. The server looks for deadlocks
// between transactions that wait for each other's locks, and aborts one (lockport.ErrUnavailable).
func (b *Backend) LockTx(ctx context.Context, tx pgx.Tx, name string) (lockport.Token, error) {
	return b.lockTx(ctx, pgxQuery(tx), name, false)
}

// TryLockSQLTx is TryLockTx for database/sql, with any driver whose placeholders are $1 and that gives the server's errors a method SQLState, as pgx's
// and lib/pq do.
func (b *Backend) TryLockSQLTx(ctx context.Context, tx *sql.Tx, name string) (lockport.Token, error) {
	return b.lockTx(ctx, sqlQuery(tx), name, true)
}

// LockSQLTx is LockTx for database/sql, as TryLockSQLTx is TryLockTx.
func (b *Backend) LockSQLTx(ctx context.Context, tx *sql.Tx, name string) (lockport.Token, error) {
	return b.lockTx(ctx, sqlQuery(tx), name, false)
}

// asker asks for a number in a transaction; it is not valid if it is NULL.
type asker func(ctx context.Context, sql string, args ...any) (sql.NullInt64, error)

func pgxQuery(tx pgx.Tx) asker {
	return func(ctx context.Context, text string, args ...any) (n sql.NullInt64, err error) {
		return n, tx.QueryRow(ctx, text, args...).Scan(&n)
	}
}

func sqlQuery(tx *sql.Tx) asker {
	return func(ctx context.Context, text string, args ...any) (n sql.NullInt64, err error) {
		return n, tx.QueryRowContext(ctx, text, args...).Scan(&n)
	}
}

func (b *Backend) lockTx(ctx context.Context, ask asker, name string, try bool) (lockport.Token, error) {
	op := "lock in transaction"
	if try {
		op = "try in transaction"
	}
	token, err := b.takeTx(ctx, ask, name, try)
	if err != nil {
		return 0, &lockport.Error{Op: op, Backend: backendName, Name: name, Err: err}
	}
	return lockport.Token(token * tokensPerGrant), nil
}

func (b *Backend) takeTx(ctx context.Context, ask asker, name string, try bool) (uint64, error) {
	if name == "" || len(name) > driver.MaxNameLength || !utf8.ValidString(name) {
		return 0, fmt.Errorf("%w: it must be valid UTF-8 of 1 to %d bytes", lockport.ErrInvalidName, driver.MaxNameLength)
	}
	key, err := b.layout.key(name)
	if err != nil {
		return 0, err
	}
	t := b.server.tokens
	draw := "0::bigint"
	if !t.transactions { // an id of a transaction that has begun to write long ago says nothing of when it got the lock
		if !b.server.ready.Load() {
			if err := b.attendTokens(ctx); err != nil {
				return 0, err
			}
		}
		draw = fmt.Sprintf(`CASE WHEN EXISTS (SELECT FROM %s) THEN %s ELSE 0 END`, t.epoch(), t.draw())
	}
	condition := `pg_advisory_xact_lock($1) IS NOT NULL`
	if try {
		condition = `pg_try_advisory_xact_lock($1)`
	}
	n, err := ask(ctx, `SELECT CASE WHEN `+condition+` THEN `+draw+` END`, key)
	switch {
	case err != nil:
		return 0, b.txError(err)
	case !n.Valid:
		return 0, driver.ErrHeld
	case n.Int64 == 0 && !t.transactions: // the first after a crash
		if err := b.attendTokens(ctx); err != nil {
			return 0, err
		}
		if n, err = ask(ctx, `SELECT `+t.draw()); err != nil {
			return 0, b.txError(err)
		}
	}
	return uint64(n.Int64), nil
}

// attendTokens opens a session, if there is none, which sees to it that tokens can be drawn, and rise.
func (b *Backend) attendTokens(ctx context.Context) error {
	if err := b.Do(ctx, &session.Op{Kind: session.Ping}); err != nil {
		return err
	}
	b.server.ready.Store(true)
	return nil
}

// txError gives an error of the caller's transaction its class.
func (b *Backend) txError(err error) error {
	var state interface{ SQLState() string }
	switch {
	case !errors.As(err, &state):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case state.SQLState() == "55P03":
		return fmt.Errorf("%w, and the transaction is aborted: %w", driver.ErrHeld, err)
	case refused(state.SQLState()):
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
