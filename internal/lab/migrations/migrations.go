// Package migrations runs several processes that migrate one Postgres concurrently, for the tests of migration adapters. It kills one process and
// makes another lose its lock, each during a migration. The migration waits at a gate until the test opens it.
package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	// Name is the name of the lock.
	Name = "migrations"
	// TTL is the TTL of the lock.
	TTL = 2 * time.Second

	processes = 4
	patience  = 10 * time.Second // less than the default TTL, more than TTL
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

// Main must be the first call in TestMain: it serves the migrating processes.
func Main(up Up) {
	migrators.Main(func(ctx context.Context, c config) (func(struct{}) (bool, error), func(), error) {
		db, locks, err := c.open(ctx)
		return func(struct{}) (bool, error) { return up(context.Background(), db, locks) }, func() {}, err
	})
}

// Stage is an empty database, the gate, and a lock server.
type Stage struct {
	DB    *sql.DB
	Locks *lockport.Client

	t      testing.TB
	ctx    context.Context
	config config
	gate   *pgx.Conn // keeps the gate closed
	lost   chan error
}

// New makes a Stage for t, with a new database and with locks on a Redis. Its gate is closed.
func New(t testing.TB) *Stage {
	postgres, redis := servers.SharedPostgres(t), servers.SharedRedis(t)
	name := fmt.Sprintf("stage%d", time.Now().UnixNano())
	require.NoError(t, postgres.Run(t.Context(), "CREATE DATABASE "+name+" OWNER lockport",
		"ALTER DATABASE "+name+" SET client_connection_check_interval = 100")) // Postgres soon ends a migration whose client process is dead
	database, err := url.Parse(postgres.URL())
	require.NoError(t, err)
	database.Path = name
	return At(t, database.String(), database.String(), redis.URL()+"?prefix="+name+":")
}

// At makes a Stage of an empty database, reached at target, or without a pooler at direct, and of the locks at a URL.
func At(t testing.TB, target, direct, locks string) *Stage {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	gate, err := pgx.Connect(ctx, direct)
	require.NoError(t, err)
	t.Cleanup(func() { _ = gate.Close(context.Background()) })
	s := &Stage{t: t, ctx: ctx, config: config{target, locks}, gate: gate, lost: make(chan error, 1)}
	_, err = gate.Exec(ctx, "SELECT pg_advisory_lock(1)")
	require.NoError(t, err)
	s.DB, s.Locks, err = s.config.open(ctx, lockport.Observe(lockport.Hooks{Lost: func(e lockport.HoldEvent) { s.lost <- e.Err }}))
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = s.Locks.Close(), s.DB.Close() })
	return s
}

// Open opens the gate permanently.
func (s *Stage) Open() {
	_, err := s.gate.Exec(s.ctx, "SELECT pg_advisory_unlock(1)")
	require.NoError(s.t, err)
}

// Tables returns the tables that the Steps have created so far.
func (s *Stage) Tables() (names []string) {
	rows, _ := s.gate.Query(s.ctx, "SELECT relname FROM pg_class WHERE relname IN ('first', 'second', 'third') ORDER BY 1")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return names
}

// await waits until one session is at the gate and waiting processes wait for the lock. It returns the id of the session.
func (s *Stage) await(waiting int) (session int) {
	s.t.Helper()
	require.NoError(s.t, servers.Poll(s.ctx, func(ctx context.Context) error {
		var n int
		err := s.gate.QueryRow(ctx, "SELECT count(*), coalesce(min(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted "+
			"AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&n, &session)
		if err != nil {
			return err
		}
		status, err := s.Locks.Inspect(ctx, Name)
		if err == nil && (n != 1 || status.Waiters != waiting) {
			err = fmt.Errorf("%d sessions are at the gate and %d processes wait for the lock of %v, want 1 and %d", n, status.Waiters, status.Owner, waiting)
		}
		return err
	}))
	return session
}

// start starts n processes, which end when the test ends.
func (s *Stage) start(n int) worker.Group[struct{}, bool] {
	all, err := migrators.StartAll(s.ctx, s.config, n)
	require.NoError(s.t, err)
	s.t.Cleanup(all.Kill)
	return all
}

// AtOnce makes processes migrate concurrently: one migrates, the others wait and find nothing to do.
func (s *Stage) AtOnce() {
	s.t.Helper()
	var outcomes []func(context.Context) (bool, error)
	for _, m := range s.start(processes) {
		outcomes = append(outcomes, m.Send(struct{}{}))
	}
	s.await(processes - 1)
	s.Open()
	migrated := 0
	for _, outcome := range outcomes {
		did, err := outcome(s.ctx)
		require.NoError(s.t, err)
		if did {
			migrated++
		}
	}
	require.Equal(s.t, 1, migrated, "processes that migrated")
	require.Len(s.t, s.Tables(), len(Steps))
}

// Killed kills a process during the second step. It returns the result of a second process, which waited and then migrated.
func (s *Stage) Killed() (migrated bool, err error) {
	s.t.Helper()
	both := s.start(2)
	both[0].Send(struct{}{})
	session := s.await(0)
	outcome := both[1].Send(struct{}{})
	s.await(1)
	both[0].Kill()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	require.NoError(s.t, servers.Poll(ctx, func(ctx context.Context) error {
		var there bool
		err := s.gate.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", session).Scan(&there)
		if there {
			err = fmt.Errorf("session %d of the killed process still exists", session)
		}
		return err
	}))
	s.Open()
	return outcome(ctx)
}

// Lost makes up lose its lock during the second step. outcome waits for its error.
func (s *Stage) Lost(up Up) (outcome func() error) {
	s.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := up(s.ctx, s.DB, s.Locks)
		done <- err
	}()
	s.await(0)
	status, err := s.Locks.Inspect(s.ctx, Name)
	if err == nil {
		err = s.Locks.Break(s.ctx, Name, status.Owner)
	}
	require.NoError(s.t, err)
	require.ErrorIs(s.t, peer.Eventually(s.t, s.lost), lockport.ErrLost)
	return func() error { return peer.Eventually(s.t, done) }
}
