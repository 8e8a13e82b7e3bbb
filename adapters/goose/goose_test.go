package gooselock_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	gooselock "github.com/lockport/lockport/adapters/goose"
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

func up(ctx context.Context, db *sql.DB, locks *lockport.Client) (bool, error) {
	return provide(ctx, db, goose.WithLocker(gooselock.New(locks, migrations.Name)))
}

func provide(ctx context.Context, db *sql.DB, opts ...goose.ProviderOption) (bool, error) {
	files := fstest.MapFS{}
	for i, step := range migrations.Steps {
		files[fmt.Sprintf("%d_step.sql", i+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + step)}
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, opts...)
	if err != nil {
		return false, err
	}
	results, err := provider.Up(ctx)
	return len(results) > 0, err
}

func TestAtOnce(t *testing.T) { migrations.New(t).AtOnce() }

// Behind a pooler, every transaction may have another session: a session's lock would be lost.
func TestAtOnceBehindPgBouncer(t *testing.T) {
	postgres := servers.NeedPostgres(t, servers.PostgresOptions{})
	pooler := servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: postgres, Mode: "transaction"})
	migrations.At(t, pooler.URL()+"?default_query_exec_mode=exec", postgres.URL(), servers.SharedRedis(t).URL()).AtOnce()
}

func TestKilled(t *testing.T) {
	s := migrations.New(t)
	require.True(t, peer.Must(s.Killed())(t), "the next process must migrate")
	require.Len(t, s.Tables(), len(migrations.Steps))
}

func TestLost(t *testing.T) {
	s := migrations.New(t)
	outcome := s.Lost(up)
	s.Open()
	require.ErrorIs(t, outcome(), lockport.ErrLost)
}

// The recommendation of the README.
func TestLostInDo(t *testing.T) {
	s := migrations.New(t)
	outcome := s.Lost(func(ctx context.Context, db *sql.DB, locks *lockport.Client) (migrated bool, err error) {
		return migrated, lockport.Do(ctx, locks, migrations.Name, func(ctx context.Context, _ *lockport.Lock) error {
			migrated, err = provide(ctx, db)
			return err
		})
	})
	require.ErrorIs(t, outcome(), lockport.ErrLost, "the gate stays closed")
	require.Len(t, s.Tables(), 1)
}

func TestLocker(t *testing.T) {
	ctx := peer.Within(t, 10*time.Second)
	server, before := memory.NewServer(), func() { panic("hook") }
	hooks := lockport.Hooks{AcquireStart: func(ctx context.Context, _ lockport.AcquireEvent) context.Context { before(); return ctx }}
	locks := peer.Client(t, memory.NewBackend(memory.Options{Server: server}), lockport.Observe(hooks))
	ours, theirs := gooselock.New(locks, t.Name()), gooselock.New(locks, t.Name())
	blocked := func(l *gooselock.Locker) {
		t.Helper()
		err := l.Lock(peer.Within(t, 100*time.Millisecond), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lockport.ErrHeld)
	}

	require.PanicsWithValue(t, "hook", func() { _ = ours.Lock(ctx, nil) })
	before = func() {}
	require.ErrorIs(t, gooselock.New(locks, t.Name(), lockport.TTL(-1)).Lock(ctx, nil), lockport.ErrInvalidOption)
	require.NoError(t, ours.Lock(ctx, nil))
	blocked(theirs)

	// Lost: another Provider with the same Locker waits, so that each gets the outcome of its own lock.
	server.Lose(t.Name(), nil)
	blocked(ours)
	require.ErrorIs(t, ours.Unlock(ctx, nil), lockport.ErrLost)
	require.NoError(t, ours.Lock(ctx, nil))
	blocked(theirs)
	require.NoError(t, ours.Unlock(ctx, nil))
	require.Error(t, ours.Unlock(ctx, nil), "without Lock")
	require.NoError(t, theirs.Lock(ctx, nil))
}
