package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Table is the table's name, best with its schema or database: "app.locks". Letters, digits and underscores. Clients with the same table share
	// locks. Default: "lockport_locks".
	Table string
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// New makes a lockport client on a table of db, whose server speaks dialect d. Any database/sql driver will do. Give locks their
// own db, or keep one of its connections free: while other work uses all, renewals fail, so that locks are lost, and an Acquire or Release within
// that work waits for itself. New does no I/O and does not create the table: see CreateTable. Closing the client leaves db open.
func New(db *sql.DB, d Dialect, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(db, d, o)
	if err != nil {
		return nil, err
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does. An error matches lockport.ErrInvalidOption.
func NewBackend(db *sql.DB, d Dialect, o Options) (*Backend, error) {
	o.Table = cmp.Or(o.Table, "lockport_locks")
	var err error
	switch {
	case db == nil:
		err = errors.New("the *sql.DB is nil")
	case d < 0 || int(d) >= len(dialects):
		err = fmt.Errorf("unknown dialect %d", int(d))
	case !tableName.MatchString(o.Table):
		err = fmt.Errorf("the option Table %q is not a name of letters, digits and underscores", o.Table)
	}
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	b := &Backend{db: db, dialect: &dialects[d], words: strings.NewReplacer(slices.Concat(dialects[d].words, []string{"{table}", o.Table})...)}
	b.ended.Store(rand.Uint32N(pruneEvery))
	if most := db.Stats().MaxOpenConnections; most > 0 {
		b.turns = make(chan struct{}, max(1, most-1))
	}
	return b, nil
}

// Backend is the driver.Backend, and a driver.BatchRenewer, Inspector, Breaker and Checker. Safe for concurrent use. It runs no goroutines.
type Backend struct {
	db      *sql.DB
	owned   bool          // db was made from a URL: Close closes it
	create  bool          // Check creates the table
	turns   chan struct{} // nil, or admits claims to db in order; one connection fewer than db may have, so that renewals and releases need not queue
	dialect *dialect
	words   *strings.Replacer
	failed  atomic.Pointer[failedDial]
	texts   sync.Map      // the results of text, by statement
	ended   atomic.Uint32 // counts claims released or abandoned, from a random start: processes that take one lock each prune too
}

var capabilities = driver.Capabilities{
	Backend:  "table",
	Ends:     driver.EndsTTL,
	TTLGrain: time.Millisecond,
	Token:    driver.TokenFailover,
	Fair:     driver.FairNone,
	Wake:     driver.WakePoll, // every 250 ms, the client's default, and when the holder's TTL ends
	Failover: driver.FailoverUnsafe,
	// The renewal after a third of the TTL finds out.
	RemovalNotice: func(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend.
func (b *Backend) Close() error {
	if b.owned {
		_ = b.db.Close() // an error would tell of a connection, such as one that the server has closed, and of no lock
	}
	return nil
}

// Schema returns the statement that creates the table if it is missing: for a migration, or for a user who may not create tables.
func Schema(d Dialect, o Options) (string, error) {
	b, err := NewBackend(new(sql.DB), d, o)
	if err != nil {
		return "", err
	}
	return b.text(b.dialect.schema), nil
}

// CreateTable creates the table in db if it is missing. It needs the right to create tables, which locks do not.
func CreateTable(ctx context.Context, db *sql.DB, d Dialect, o Options) error {
	b, err := NewBackend(db, d, o)
	if err == nil {
		err = b.makeTable(ctx)
	}
	return err
}

func (b *Backend) makeTable(ctx context.Context) error {
	_, err := b.run(ctx, driver.ErrUnavailable, b.dialect.schema)
	if err == nil || b.try(ctx) == nil {
		return nil // this client has created it, or another one meanwhile
	}
	if errors.Is(err, driver.ErrRefused) {
		err = fmt.Errorf("%w (an administrator can create the table: %s)", err, b.text(b.dialect.schema))
	}
	return err
}

// Check implements driver.Checker. It creates the table if the URL has create=true.
func (b *Backend) Check(ctx context.Context) (notices []driver.Notice, err error) {
	if err = b.try(ctx); b.create && errors.Is(err, driver.ErrRefused) {
		if err = b.makeTable(ctx); err == nil {
			err = b.try(ctx) // if the table existed, another right is missing
		}
	}
	if err != nil {
		return nil, err
	}
	for _, statement := range b.dialect.notices {
		a, failed := b.run(ctx, driver.ErrUnavailable, statement)
		err = cmp.Or(err, failed)
		for _, row := range a.rows {
			notices = append(notices, risks[row.Text(0)])
		}
	}
	return notices, err
}

// try tests each right that locks need, and changes nothing.
func (b *Backend) try(ctx context.Context) (err error) {
	const insert, update = "INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0", "UPDATE {table} SET expires = 0 WHERE 1 = 0"
	for _, statement := range []string{insert, update, "{delete} WHERE 1 = 0"} {
		if err == nil {
			_, err = b.run(ctx, driver.ErrUnavailable, statement)
		}
	}
	return err
}

// cluster is the notice of a node of Galera, or of a group in multi-primary mode.
var cluster = driver.Notice{ID: "cluster", Text: "The server is set up as one of several nodes that accept writes. A node that lags reports losses that did not happen, and each judges expiry by its own clock.",
	Remedy: "Send all locks to one node, or set wsrep_sync_wait to 7 (Galera) and synchronize the nodes' clocks."}

// risks are the notices of Check, by the first column of dialect.notices.
var risks = map[string]driver.Notice{
	"durability": {ID: "durability", Text: "The server acknowledges commits before they are on disk: after a crash, a held lock may be granted again.",
		Remedy: "Set synchronous_commit and fsync to on (Postgres), innodb_flush_log_at_trx_commit and sync_binlog to 1 (MySQL), or synchronous to FULL (SQLite)."},
	"replication": {ID: "replication", Text: "The server does not wait for its replicas: a promoted replica may lack a held lock, and grant it again.",
		Remedy: "Make replication synchronous, or check fencing tokens on every write."},
	"Slaves_running": {ID: "replica", Text: "This server is a replica that accepts writes: locks taken here exclude nobody on its primary.",
		Remedy: "Use the primary for all locks, and set read_only on replicas."},
	"wsrep_provider": cluster, "group_replication_single_primary_mode": cluster,
}
