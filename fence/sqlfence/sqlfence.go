package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
)

// Dialect is the SQL that a server speaks.
type Dialect int

// The dialects.
const (
	Postgres Dialect = iota + 1 // PostgreSQL 9.5 or newer
	MySQL                       // MySQL 5.7 or newer, MariaDB 10.2 or newer
)

// DefaultTable is where tokens are kept where New is given no table.
const DefaultTable = "lockport_guard"

// Fence keeps the greatest token of each name in a table beside the data that it guards. It has no state of its own: every process may have
// its own. Safe for concurrent use.
type Fence struct {
	dialect Dialect
	table   string // quoted
	plain   string // as given
	guard   string // takes the name and the token, locks the row, and says what the row has then
	seen    string // reads what the row has, and locks it
}

// New makes a fence on a table, which exists: see Schema. It does no I/O. The table is "name" or "schema.name" ("database.name"), of letters, digits and
// underscores, and is quoted, so that upper case is kept; empty: DefaultTable, where the connection finds it.
func New(d Dialect, table string) (*Fence, error) {
	if table == "" {
		table = DefaultTable
	}
	quote := map[Dialect]string{Postgres: `"`, MySQL: "`"}[d]
	if quote == "" {
		return nil, errors.New("sqlfence: the dialect is neither Postgres nor MySQL")
	}
	parts := strings.Split(table, ".")
	for i, part := range parts {
		if !identifier(part) || len(parts) > 2 {
			return nil, fmt.Errorf("sqlfence: the table %q: it must be name or schema.name, of letters, digits and underscores", table)
		}
		parts[i] = quote + part + quote
	}
	f := &Fence{dialect: d, table: strings.Join(parts, "."), plain: table}
	f.guard, f.seen = statements(d, f.table)
	return f, nil
}

// identifier reports that s needs no thought in either dialect.
func identifier(s string) bool {
	for _, c := range s {
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 63 && (s[0] < '0' || s[0] > '9')
}

// Guard makes tx the write of the holder of token, or nobody's. If a greater token was seen for name, tx is rolled back, and the error matches
// fence.ErrStale. Otherwise the token is registered, and name's row stays locked until tx ends: no newer holder comes between, and what is read in tx after
// Guard is what the newest holder is to see. It must be the first statement of tx: see the package comment.
//
// tx is rolled back after every error, so that it cannot be committed by mistake: *sql.Tx says sql.ErrTxDone then. A deadlock, a serialization failure and the like are
// in the chain; the whole transaction may be tried again. Guard waits for another guarded transaction on the same name, until ctx ends or the server's own
// limit is reached (innodb_lock_wait_timeout, 50 s by default; lock_timeout).
func (f *Fence) Guard(ctx context.Context, tx *sql.Tx, name string, token lockport.Token) error {
	return f.run(ctx, standard{f, tx}, name, token)
}

// GuardPgx is Guard for a transaction of pgx, which says pgx.ErrTxClosed when it was rolled back. tx is one that Begin of a connection or of a pool
// returned: of one that was begun inside of another, a savepoint, only that part would be undone.
func (f *Fence) GuardPgx(ctx context.Context, tx pgx.Tx, name string, token lockport.Token) error {
	if f.dialect != Postgres {
		_ = tx.Rollback(ctx)
		return fmt.Errorf("sqlfence: %w: a transaction of pgx needs New(Postgres, …)", errors.ErrUnsupported)
	}
	return f.run(ctx, native{f, tx}, name, token)
}

// Register registers token in a transaction of its own: a holder does so before it reads, where it reads outside of the transaction that will write. The
// error matches fence.ErrStale if a greater token was seen. After an error that does not, the token may be registered or not.
func (f *Fence) Register(ctx context.Context, db *sql.DB, name string, token lockport.Token) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return f.explain(name, err)
	}
	if err := f.Guard(ctx, tx, name, token); err != nil {
		return err
	}
	if err := within(ctx, tx.Commit); err != nil {
		return f.explain(name, err)
	}
	return nil
}

// RegisterPgx is Register for pgx: db is a *pgx.Conn or a *pgxpool.Pool.
func (f *Fence) RegisterPgx(ctx context.Context, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, name string, token lockport.Token) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return f.explain(name, err)
	}
	if err := f.GuardPgx(ctx, tx, name, token); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return f.explain(name, err)
	}
	return nil
}

// transaction is what the two kinds have in common.
type transaction interface {
	register(ctx context.Context, name []byte, token int64) (seen int64, err error)
	rollback(ctx context.Context)
}

func (f *Fence) run(ctx context.Context, tx transaction, name string, token lockport.Token) error {
	seen, err := int64(0), check(name, token)
	if err == nil {
		seen, err = tx.register(ctx, []byte(name), int64(token))
	}
	if err == nil {
		err = fence.Check(name, token, lockport.Token(seen))
	}
	if err == nil && seen != int64(token) {
		err = fmt.Errorf("the row has %d after token %d was registered: is the table that of Schema?", seen, token)
	}
	if err != nil {
		tx.rollback(ctx)
		return f.explain(name, err)
	}
	return nil
}

// check refuses what the table could not hold.
func check(name string, token lockport.Token) error {
	switch {
	case name == "" || len(name) > driver.MaxNameLength || !utf8.ValidString(name):
		return lockport.ErrInvalidName
	case token > math.MaxInt64:
		return fmt.Errorf("token %d is none of lockport's: it is greater than 2^63-1", token)
	}
	return fence.Check(name, token, 0)
}

func (f *Fence) explain(name string, err error) error {
	if errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("sqlfence: %w", err)
	}
	return fmt.Errorf("sqlfence: guard %.80q with table %s: %w", name, f.plain, err)
}
