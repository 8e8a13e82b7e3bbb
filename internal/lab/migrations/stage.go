package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	processes = 4
	patience  = 10 * time.Second // less than the default TTL, more than TTL
)

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
	admin := connect(t, postgres.AdminURL())
	// Postgres soon ends a migration whose client process is dead.
	for _, statement := range []string{"CREATE DATABASE %s OWNER lockport", "ALTER DATABASE %s SET client_connection_check_interval = 100"} {
		_, err := admin.Exec(t.Context(), fmt.Sprintf(statement, name))
		require.NoError(t, err)
	}
	database, err := url.Parse(postgres.URL())
	require.NoError(t, err)
	database.Path = name
	return At(t, database.String(), database.String(), redis.URL()+"?prefix="+name+":")
}

// At makes a Stage of an empty database, reached at target, or without a pooler at direct, and of the locks at a URL.
func At(t testing.TB, target, direct, locks string) *Stage {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	s := &Stage{t: t, ctx: ctx, config: config{target, locks}, gate: connect(t, direct), lost: make(chan error, 1)}
	_, err := s.gate.Exec(s.ctx, "SELECT pg_advisory_lock(1)")
	require.NoError(t, err)
	s.DB, s.Locks, err = s.config.open(s.ctx, lockport.Observe(lockport.Hooks{Lost: func(e lockport.HoldEvent) { s.lost <- e.Err }}))
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = s.Locks.Close(), s.DB.Close() })
	return s
}

func connect(t testing.TB, target string) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), target)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
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

// await waits until atGate sessions are at the gate and waiting processes wait for the lock. It returns the id of one of the sessions.
func (s *Stage) await(atGate, waiting int) (session int) {
	s.t.Helper()
	require.NoError(s.t, servers.Poll(s.ctx, func(ctx context.Context) error {
		var n int
		err := s.gate.QueryRow(ctx, "SELECT count(*), coalesce(min(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted "+
			"AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&n, &session)
		if err != nil {
			return err
		}
		status, err := s.Locks.Inspect(ctx, Name)
		if err == nil && (n != atGate || status.Waiters != waiting) {
			err = fmt.Errorf("%d sessions are at the gate and %d processes wait for the lock of %v, want %d and %d", n, status.Waiters, status.Owner, atGate, waiting)
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
	s.await(1, processes-1)
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
	session := s.await(1, 0)
	outcome := both[1].Send(struct{}{})
	s.await(1, 1)
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
	s.await(1, 0)
	status, err := s.Locks.Inspect(s.ctx, Name)
	if err == nil {
		err = s.Locks.Break(s.ctx, Name, status.Owner)
	}
	require.NoError(s.t, err)
	require.ErrorIs(s.t, s.receive(s.lost), lockport.ErrLost)
	return func() error { return s.receive(done) }
}

// receive returns the error that arrives, or that of s.ctx if it ends first.
func (s *Stage) receive(from <-chan error) error {
	select {
	case err := <-from:
		return err
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
