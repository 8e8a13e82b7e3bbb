package sqlfence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
)

// Dialect is a server's SQL dialect.
type Dialect int

// The dialects.
const (
	Postgres Dialect = iota + 1 // PostgreSQL 9.5 or newer
	MySQL                       // MySQL 5.7 or newer, MariaDB 10.2 or newer
)

// DefaultTable is the table that New uses if given none.
const DefaultTable = "lockport_guard"

// statements are a dialect's statements for a table.
type statements struct {
	quote  string // quotes names
	schema string
	guard  string // takes name and token, locks the row, and returns its new token
}

var dialects = map[Dialect]statements{
	// bytea, not text, so that the database's encoding and collation do not matter. Every guarded transaction makes a new version of the row:
	// free space on the page avoids index updates. The row is written even if the token is the same. Under REPEATABLE READ and SERIALIZABLE, a
	// transaction with a snapshot from before another one's guard then fails instead of using stale data.
	Postgres: {`"`, "CREATE TABLE IF NOT EXISTS %s (name bytea PRIMARY KEY, token bigint NOT NULL) WITH (fillfactor = 50)",
		"INSERT INTO %s AS f (name, token) VALUES ($1::bytea, $2::bigint) " +
			"ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token) RETURNING f.token"},
	// A primary key, since MySQL locks a unique index with the gap before the row. VARBINARY, since text would equate "a", "A" and "a ".
	// The server returns x of the last LAST_INSERT_ID(x) with its acknowledgement, whether the row is new, changed or unchanged.
	MySQL: {"`", "CREATE TABLE IF NOT EXISTS %s (name VARBINARY(1024) NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB",
		"INSERT INTO %s (name, token) VALUES (?, LAST_INSERT_ID(?)) ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))"},
}

// Fence keeps the greatest token of each name in a table beside the guarded data. It has no other state, so every process may make its own. Safe for
// concurrent use.
type Fence struct {
	dialect Dialect
	table   string
	statements
}

// New makes a fence on an existing table; see Schema. It does no I/O. table is "name" or "schema.name" ("database.name"), of letters, digits and
// underscores. It is quoted, so upper case is kept. Empty means DefaultTable, in the connection's default schema.
func New(d Dialect, table string) (*Fence, error) {
	table = cmp.Or(table, DefaultTable)
	s, ok := dialects[d]
	if !ok {
		return nil, errors.New("sqlfence: the dialect is neither Postgres nor MySQL")
	}
	if !tablePattern.MatchString(table) {
		return nil, fmt.Errorf("sqlfence: the table name %q must be name or schema.name, of letters, digits and underscores", table)
	}
	quoted := s.quote + strings.ReplaceAll(table, ".", s.quote+"."+s.quote) + s.quote
	for _, statement := range []*string{&s.schema, &s.guard} {
		*statement = strings.Replace(*statement, "%s", quoted, 1)
	}
	return &Fence{d, table, s}, nil
}

// tablePattern matches names that mean the same in both dialects.
var tablePattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Schema is the statement that creates the table if it does not exist, for a migration. Guarding needs the privileges SELECT, INSERT and UPDATE on
// it. Rows are never removed automatically: delete a name's row when the guarded data is gone and no holder is left.
func (f *Fence) Schema() string { return f.schema }

// Guard makes tx a write of token's holder, or rolls it back. If a greater token was seen for name, the error matches fence.ErrStale. Otherwise Guard
// registers the token and locks name's row until tx ends, so no newer holder intervenes, and later reads in tx are current. Guard must be the
// first statement of tx; see the package comment.
//
// After every error tx is rolled back, so it cannot be committed by mistake: *sql.Tx then returns sql.ErrTxDone. The error wraps deadlocks,
// serialization failures and the like; you may retry the whole transaction. Guard waits for other guarded transactions on name until ctx ends or
// the server's own limit (innodb_lock_wait_timeout, 50 s by default; lock_timeout).
func (f *Fence) Guard(ctx context.Context, tx *sql.Tx, name string, token lockport.Token) error {
	return f.explain(name, f.run(ctx, standard{f, tx}, name, token))
}

// GuardPgx is Guard for a transaction of pgx, which returns pgx.ErrTxClosed after a rollback. tx must come from Begin of a connection or pool. If
// it began inside another transaction, as a savepoint, only that part would be rolled back.
func (f *Fence) GuardPgx(ctx context.Context, tx pgx.Tx, name string, token lockport.Token) error {
	return f.explain(name, f.run(ctx, native{f, tx}, name, token))
}

// Register registers token in its own transaction. A holder calls it before it reads outside the transaction that will write. The error matches
// fence.ErrStale if a greater token was seen. After any other error the token may or may not be registered.
func (f *Fence) Register(ctx context.Context, db *sql.DB, name string, token lockport.Token) error {
	tx, err := db.BeginTx(ctx, nil)
	return f.alone(ctx, standard{f, tx}, err, name, token)
}

// RegisterPgx is Register for pgx: db is a *pgx.Conn or a *pgxpool.Pool.
func (f *Fence) RegisterPgx(ctx context.Context, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, name string, token lockport.Token) error {
	tx, err := db.Begin(ctx)
	return f.alone(ctx, native{f, tx}, err, name, token)
}

// alone registers the token in a transaction that Begin returned with err, and commits it.
func (f *Fence) alone(ctx context.Context, tx transaction, err error, name string, token lockport.Token) error {
	if err == nil {
		err = f.run(ctx, tx, name, token)
	}
	if err == nil {
		err = tx.commit(ctx)
	}
	return f.explain(name, err)
}

// transaction is common to database/sql and pgx.
type transaction interface {
	register(ctx context.Context, name []byte, token int64) (seen int64, err error)
	commit(ctx context.Context) error
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
		err = fmt.Errorf("the row has %d after token %d was registered: does the table match Schema?", seen, token)
	}
	if err != nil {
		tx.rollback(ctx)
	}
	return err
}

// check refuses what the table cannot hold.
func check(name string, token lockport.Token) error {
	switch {
	case name == "" || len(name) > driver.MaxNameLength || !utf8.ValidString(name):
		return lockport.ErrInvalidName
	case token > math.MaxInt64:
		return fmt.Errorf("token %d is not from lockport: it is greater than 2^63-1", token)
	}
	return fence.Check(name, token, 0)
}

func (f *Fence) explain(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fence.ErrStale):
		return fmt.Errorf("sqlfence: %w", err)
	}
	return fmt.Errorf("sqlfence: guard %.80q with table %s: %w", name, f.table, driver.OneLine(err))
}
