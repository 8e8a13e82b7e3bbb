package sqlfence

import (
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

// Dialect is the SQL that a server speaks.
type Dialect int

// The dialects.
const (
	Postgres Dialect = iota + 1 // PostgreSQL 9.5 or newer
	MySQL                       // MySQL 5.7 or newer, MariaDB 10.2 or newer
)

// DefaultTable is where tokens are kept where New is given no table.
const DefaultTable = "lockport_guard"

// statements are those of a dialect, for a table.
type statements struct {
	quote  string // around names
	schema string
	guard  string // takes the name and the token, locks the row, and says what the row has then
	seen   string // reads what the row has, and locks it
}

var dialects = map[Dialect]statements{
	// Bytes, not text, in whatever encoding and order the database has. Every guarded transaction makes a new version of the row: room for it on the same
	// page spares the index. It writes the row also when the token is the same: under REPEATABLE READ and SERIALIZABLE a transaction whose snapshot is from
	// before another one's guard then fails, instead of working on old data.
	Postgres: {`"`, "CREATE TABLE IF NOT EXISTS %s (name bytea PRIMARY KEY, token bigint NOT NULL) WITH (fillfactor = 50)",
		"INSERT INTO %s AS f (name, token) VALUES ($1::bytea, $2::bigint) " +
			"ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token) RETURNING f.token", ""},
	// A primary key, since a unique index would be locked with the gap before the row. Bytes, since text would take "a", "A" and "a " for one.
	// LAST_INSERT_ID(x) has the server return x with its acknowledgement. Reading what the statement left needs a locking read: a plain one would come
	// from the transaction's snapshot where the token was the same, and nothing was written.
	MySQL: {"`", "CREATE TABLE IF NOT EXISTS %s (name VARBINARY(1024) NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB",
		"INSERT INTO %s (name, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))",
		"SELECT token FROM %s WHERE name = ? FOR UPDATE"},
}

// Fence keeps the greatest token of each name in a table beside the data that it guards. It has no state of its own: every process may have
// its own. Safe for concurrent use.
type Fence struct {
	dialect Dialect
	table   string
	statements
}

// New makes a fence on a table, which exists: see Schema. It does no I/O. The table is "name" or "schema.name" ("database.name"), of letters, digits and
// underscores, and is quoted, so that upper case is kept; empty: DefaultTable, where the connection finds it.
func New(d Dialect, table string) (*Fence, error) {
	if table == "" {
		table = DefaultTable
	}
	s, ok := dialects[d]
	if !ok {
		return nil, errors.New("sqlfence: the dialect is neither Postgres nor MySQL")
	}
	if !tablePattern.MatchString(table) {
		return nil, fmt.Errorf("sqlfence: the table %q: it must be name or schema.name, of letters, digits and underscores", table)
	}
	quoted := s.quote + strings.ReplaceAll(table, ".", s.quote+"."+s.quote) + s.quote
	for _, statement := range []*string{&s.schema, &s.guard, &s.seen} {
		*statement = strings.Replace(*statement, "%s", quoted, 1)
	}
	return &Fence{d, table, s}, nil
}

// tablePattern is of names that mean the same in both dialects.
var tablePattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Schema is the statement that creates the table, for a migration. It does nothing if the table is there. Whoever guards needs the privileges SELECT,
// INSERT and UPDATE on it. Rows are never removed by themselves; delete that of a name when what it guards is gone, and no holder is left.
func (f *Fence) Schema() string { return f.schema }

// Guard makes tx the write of the holder of token, or nobody's. If a greater token was seen for name, tx is rolled back, and the error matches
// fence.ErrStale. Otherwise the token is registered, and name's row stays locked until tx ends: no newer holder comes between, and what is read in tx after
// Guard is what the newest holder is to see. It must be the first statement of tx: see the package comment.
//
// tx is rolled back after every error, so that it cannot be committed by mistake: *sql.Tx says sql.ErrTxDone then. A deadlock, a serialization failure and the like are
// in the chain; the whole transaction may be tried again. Guard waits for another guarded transaction on the same name, until ctx ends or the server's own
// limit is reached (innodb_lock_wait_timeout, 50 s by default; lock_timeout).
func (f *Fence) Guard(ctx context.Context, tx *sql.Tx, name string, token lockport.Token) error {
	return f.explain(name, f.run(ctx, standard{f, tx}, name, token))
}

// GuardPgx is Guard for a transaction of pgx, which says pgx.ErrTxClosed when it was rolled back. tx is one that Begin of a connection or of a pool
// returned: of one that was begun inside of another, a savepoint, only that part would be undone.
func (f *Fence) GuardPgx(ctx context.Context, tx pgx.Tx, name string, token lockport.Token) error {
	return f.explain(name, f.run(ctx, native{f, tx}, name, token))
}

// Register registers token in a transaction of its own: a holder does so before it reads, where it reads outside of the transaction that will write. The
// error matches fence.ErrStale if a greater token was seen. After an error that does not, the token may be registered or not.
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

// alone registers in a transaction that has begun, if err is nil, and commits it.
func (f *Fence) alone(ctx context.Context, tx transaction, err error, name string, token lockport.Token) error {
	if err == nil {
		err = f.run(ctx, tx, name, token)
	}
	if err == nil {
		err = tx.commit(ctx)
	}
	return f.explain(name, err)
}

// transaction is what the two kinds have in common.
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
		err = fmt.Errorf("the row has %d after token %d was registered: is the table that of Schema?", seen, token)
	}
	if err != nil {
		tx.rollback(ctx)
	}
	return err
}

// check refuses what the table could not hold.
func check(name string, token lockport.Token) error {
	switch {
	case name == "" || len(name) > driver.MaxNameLength || !utf8.ValidString(name):
		return lockport.ErrInvalidName
	case token > math.MaxInt64:
		return fmt.Errorf("token %d is not one of lockport's: it is greater than 2^63-1", token)
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
	return fmt.Errorf("sqlfence: guard %.80q with table %s: %w", name, f.table, err)
}
