package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/lockport/lockport"
	gooselock "github.com/lockport/lockport/adapters/goose"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/internal/lab/migrations"
	"github.com/lockport/lockport/internal/lab/servers"
)

var _ lock.Locker = (*gooselock.Locker)(nil)

func TestMain(m *testing.M) {
	migrations.Main(up)
	os.Exit(m.Run())
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

// A pooler that gives every transaction another session would lose a session's lock.
func TestAtOnceBehindPgBouncer(t *testing.T) {
	postgres := servers.NeedPostgres(t, servers.PostgresOptions{})
	pooler := servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: postgres, Mode: "transaction"})
	migrations.At(t, pooler.URL()+"?default_query_exec_mode=exec", postgres.URL(), servers.SharedRedis(t).URL()).AtOnce()
}

func TestKilled(t *testing.T) {
	s := migrations.New(t)
	if migrated, err := s.Killed(); !migrated || err != nil {
		t.Errorf("the process that follows migrated: %v, %v", migrated, err)
	}
	if tables := s.Tables(); len(tables) != len(migrations.Steps) {
		t.Errorf("there are %v", tables)
	}
}

func TestLost(t *testing.T) {
	s := migrations.New(t)
	outcome := s.Lost(up)
	s.Open()
	if err := outcome(); !errors.Is(err, lockport.ErrLost) {
		t.Errorf("Up without its lock returned %v", err)
	}
}

// What README recommends.
func TestLostInDo(t *testing.T) {
	s := migrations.New(t)
	outcome := s.Lost(func(ctx context.Context, db *sql.DB, locks *lockport.Client) (migrated bool, err error) {
		return migrated, lockport.Do(ctx, locks, migrations.Name, func(ctx context.Context, _ *lockport.Lock) error {
			migrated, err = provide(ctx, db)
			return err
		})
	})
	// The gate stays closed.
	if err := outcome(); !errors.Is(err, lockport.ErrLost) {
		t.Errorf("Do without its lock returned %v", err)
	}
	if tables := s.Tables(); len(tables) != 1 {
		t.Errorf("there are %v", tables)
	}
}

func TestLocker(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	locks, err := lockport.Open(ctx, servers.SharedRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	ours, theirs := gooselock.New(locks, t.Name()), gooselock.New(locks, t.Name())
	check := func(what string, err error, wanted ...error) {
		t.Helper()
		if (err == nil) != (len(wanted) == 0) {
			t.Errorf("%s returned %v, not %v", what, err, wanted)
		}
		for _, w := range wanted {
			if !errors.Is(err, w) {
				t.Errorf("%s returned %v, not %v", what, err, w)
			}
		}
	}
	blocked := func() {
		t.Helper()
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		check("Lock of what is held", theirs.Lock(soon, nil), context.DeadlineExceeded, lockport.ErrHeld)
	}

	if ours.Unlock(ctx, nil) == nil {
		t.Error("Unlock succeeds without Lock")
	}
	check("Lock", ours.Lock(ctx, nil))
	blocked()

	// Lost, and another Provider with the same Locker has it: neither call of Unlock ends what the other Provider has.
	status, err := locks.Inspect(ctx, t.Name())
	check("Inspect", err)
	check("Break", locks.Break(ctx, t.Name(), status.Owner))
	check("Lock", ours.Lock(ctx, nil))
	check("Unlock", ours.Unlock(ctx, nil), lockport.ErrLost)
	blocked()
	check("Unlock", ours.Unlock(ctx, nil))
	check("Lock", theirs.Lock(ctx, nil))
}
