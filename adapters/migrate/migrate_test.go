package migratelock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	databasetest "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	migratelock "github.com/lockport/lockport/adapters/migrate"
	"github.com/lockport/lockport/backend/memory"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/internal/lab/migrations"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) {
	migrations.Main(up)
	m.Run()
}

func up(_ context.Context, db *sql.DB, locks *lockport.Client) (bool, error) {
	m, err := open(db, locks)
	if err != nil {
		return false, err
	}
	err = m.Up()
	if errors.Is(err, migrate.ErrNoChange) {
		return false, nil
	}
	return err == nil, err
}

func open(db *sql.DB, locks *lockport.Client) (*migrate.Migrate, error) {
	files := fstest.MapFS{}
	for i, step := range migrations.Steps {
		files[fmt.Sprintf("%d_step.up.sql", i+1)] = &fstest.MapFile{Data: []byte(step)}
	}
	source, err := iofs.New(files, ".")
	if err != nil {
		return nil, err
	}
	inner, err := pgx.WithInstance(db, &pgx.Config{})
	if err != nil {
		return nil, err
	}
	m, err := migrate.NewWithInstance("files", source, "lockport", migratelock.New(inner, locks, migrations.Name, time.Minute))
	if err == nil {
		m.LockTimeout = 2 * time.Minute
	}
	return m, err
}

func TestAtOnce(t *testing.T) { migrations.New(t).AtOnce() }

// As after every failed migration, golang-migrate requires manual action.
func TestKilled(t *testing.T) {
	s := migrations.New(t)
	migrated, err := s.Killed()
	require.False(t, migrated, "the next process must not migrate")
	require.EqualError(t, err, migrate.ErrDirty{Version: 2}.Error())
	m := peer.Must(open(s.DB, s.Locks))(t)
	require.NoError(t, m.Force(1))
	require.NoError(t, m.Up())
}

func TestLost(t *testing.T) {
	s := migrations.New(t)
	outcome := s.Lost(up)
	s.Open()
	require.ErrorIs(t, outcome(), lockport.ErrLost)
	require.Len(t, s.Tables(), 2)
}

// golang-migrate's tests for every driver, and those for this one.
func TestDriver(t *testing.T) {
	server, url, before := memory.NewServer(), servers.SharedPostgres(t).URL(), func() {}
	hooks := lockport.Hooks{AcquireStart: func(ctx context.Context, _ lockport.AcquireEvent) context.Context { before(); return ctx }}
	locks := peer.Client(t, memory.NewBackend(memory.Options{Server: server}), lockport.Observe(hooks))
	opened := func(name string, wait time.Duration) database.Driver {
		d := peer.Must(migratelock.New(&pgx.Postgres{}, locks, name, wait).Open(url))(t)
		t.Cleanup(func() { _ = d.Close() })
		return d
	}

	t.Run("golang-migrate", func(t *testing.T) { databasetest.Test(t, opened(t.Name(), time.Minute), []byte("SELECT 1")) })

	t.Run("locked", func(t *testing.T) {
		first, second := opened(t.Name(), time.Minute), opened(t.Name(), 2*time.Second)
		before = func() { panic("hook") }
		require.PanicsWithValue(t, "hook", func() { _ = first.Lock() })
		before = func() {}
		require.ErrorIs(t, first.Unlock(), database.ErrNotLocked)
		require.NoError(t, first.Lock())
		err := second.Lock()
		require.ErrorIs(t, err, database.ErrLocked)
		require.ErrorIs(t, err, lockport.ErrHeld)
		require.NoError(t, first.Close(), "Close after too short a LockTimeout")
		require.NoError(t, second.Lock())
		require.NoError(t, second.Unlock())
	})

	t.Run("closed", func(t *testing.T) {
		first, second := opened(t.Name(), time.Minute), opened(t.Name(), time.Minute)
		require.NoError(t, first.Lock())
		waiting := make(chan error)
		go func() { waiting <- second.Lock() }()
		require.NoError(t, second.Close())
		require.ErrorIs(t, <-waiting, context.Canceled)
	})

	t.Run("lost", func(t *testing.T) {
		d := opened(t.Name(), time.Minute)
		require.NoError(t, d.Lock())
		require.NoError(t, d.SetVersion(1, true))
		server.Lose(t.Name(), nil)
		require.ErrorIs(t, d.Run(strings.NewReader("SELECT 1")), lockport.ErrLost)
		require.ErrorIs(t, d.SetVersion(1, false), lockport.ErrLost)
		require.ErrorIs(t, d.Drop(), lockport.ErrLost)
		require.ErrorIs(t, d.Unlock(), lockport.ErrLost)
	})
}

// busy is a driver with a migration under way, which its Close waits for, as that of sql.Conn does.
type busy struct {
	database.Driver
	began, end chan struct{}
}

func (b busy) Run(io.Reader) error {
	close(b.began)
	<-b.end
	return nil
}

func (b busy) Close() error {
	<-b.end
	return io.EOF
}

func TestCloseDuringAMigration(t *testing.T) {
	server := memory.NewServer()
	locks := peer.Client(t, memory.NewBackend(memory.Options{Server: server}))
	b := busy{began: make(chan struct{}), end: make(chan struct{})}
	d := migratelock.New(b, locks, "n", time.Minute)
	require.NoError(t, d.Lock())
	go func() { _ = d.Run(strings.NewReader("x")) }()
	<-b.began
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	free := func() bool { return !peer.Must(locks.Inspect(t.Context(), "n"))(t).Held }
	require.Never(t, free, 200*time.Millisecond, 5*time.Millisecond, "the lock was free during a migration")
	server.Lose("n", nil)
	close(b.end)
	require.Regexp(t, "^EOF; [^\n]+ lost", <-closed)
	require.True(t, free())

	closing := lockport.Hooks{AcquireDone: func(context.Context, lockport.AcquireEvent) { _ = d.Close() }}
	d = migratelock.New(b, peer.Client(t, memory.NewBackend(memory.Options{Server: server}), lockport.Observe(closing)), "m", time.Minute)
	require.ErrorIs(t, d.Lock(), context.Canceled)
	require.NoError(t, peer.ErrOf(locks.TryAcquire(t.Context(), "m")), "Close came between the grant and the end of Lock")
}
