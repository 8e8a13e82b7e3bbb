// Package migrations runs several processes that migrate one Postgres concurrently, for the tests of migration adapters. It kills one process and
// makes another lose its lock, each during a migration. The migration waits at a gate until the test opens it.
package migrations

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	// Name is the name of the lock.
	Name = "migrations"
	// TTL is the TTL of the lock.
	TTL = 2 * time.Second
)

// Steps are three migrations that fail if they run twice. The second waits at the gate.
var Steps = [...]string{
	"CREATE TABLE first ();",
	"SELECT pg_advisory_xact_lock_shared(1);\nCREATE TABLE second ();",
	"CREATE TABLE third ();",
}

// Up applies the Steps that the database lacks, under the lock. migrated reports whether there were any.
type Up func(ctx context.Context, db *sql.DB, locks *lockport.Client) (migrated bool, err error)

type config struct{ Database, Locks string }

// open opens the database and the locks of c.
func (c config) open(ctx context.Context, opts ...lockport.Option) (db *sql.DB, locks *lockport.Client, err error) {
	if db, err = sql.Open("pgx", c.Database); err != nil {
		return nil, nil, err
	}
	opts = append(opts, lockport.TTL(TTL), lockport.Logger(slog.New(slog.DiscardHandler)))
	locks, err = lockport.Open(ctx, c.Locks, opts...)
	return db, locks, err
}

var migrators = worker.Kind[config, struct{}, bool]{Variable: "LOCKPORT_TEST_MIGRATOR"}

// migrator is the implementation of a migrating process.
type migrator struct {
	up    Up
	db    *sql.DB
	locks *lockport.Client
}

func (m *migrator) Do(struct{}) (bool, error) { return m.up(context.Background(), m.db, m.locks) }
func (m *migrator) Close()                    { _, _ = m.locks.Close(), m.db.Close() }

// Main must be the first call in TestMain: it serves the migrating processes.
func Main(up Up) {
	migrators.Main(func(ctx context.Context, c config) (worker.Worker[struct{}, bool], error) {
		db, locks, err := c.open(ctx)
		return &migrator{up, db, locks}, err
	})
}
