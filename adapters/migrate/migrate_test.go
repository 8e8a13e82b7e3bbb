package migratelock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	databasetest "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/lockport/lockport"
	migratelock "github.com/lockport/lockport/adapters/migrate"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/internal/lab/migrations"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) {
	migrations.Main(up)
	os.Exit(m.Run())
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

// As after every migration that failed, golang-migrate wants a person to look.
func TestKilled(t *testing.T) {
	s := migrations.New(t)
	if migrated, err := s.Killed(); migrated || err == nil || err.Error() != (migrate.ErrDirty{Version: 2}).Error() {
		t.Errorf("the process that follows migrated: %v, %v", migrated, err)
	}
	m, err := open(s.DB, s.Locks)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Force(1); err != nil {
		t.Error(err)
	}
	if err := m.Up(); err != nil {
		t.Error(err)
	}
}

func TestLost(t *testing.T) {
	s := migrations.New(t)
	outcome := s.Lost(up)
	s.Open()
	if err := outcome(); !errors.Is(err, lockport.ErrLost) {
		t.Errorf("Up without its lock returned %v", err)
	}
	if tables := s.Tables(); len(tables) != 2 {
		t.Errorf("there are %v", tables)
	}
}

// What golang-migrate asks of every driver, and what is special to this one.
func TestDriver(t *testing.T) {
	locks, err := lockport.Open(t.Context(), servers.SharedRedis(t).URL(), lockport.TTL(migrations.TTL))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	opened := func(name string, wait time.Duration) database.Driver {
		d, err := migratelock.New(&pgx.Postgres{}, locks, t.Name()+name, wait).Open(servers.SharedPostgres(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}

	t.Run("golang-migrate", func(t *testing.T) {
		d := opened(t.Name(), time.Minute)
		defer d.Close()
		databasetest.Test(t, d, []byte("SELECT 1"))
	})

	t.Run("locked", func(t *testing.T) {
		first, second := opened(t.Name(), time.Minute), opened(t.Name(), 100*time.Millisecond)
		defer second.Close()
		if err := first.Unlock(); !errors.Is(err, database.ErrNotLocked) {
			t.Errorf("Unlock before Lock returned %v", err)
		}
		if err := first.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := second.Lock(); !errors.Is(err, database.ErrLocked) || !errors.Is(err, lockport.ErrHeld) {
			t.Errorf("Lock of what another driver has locked returned %v", err)
		}
		// As after a LockTimeout that was too short.
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		if err := second.Lock(); err != nil {
			t.Errorf("Lock of what Close has released returned %v", err)
		}
		if err := second.Unlock(); err != nil {
			t.Error(err)
		}
	})

	t.Run("closed", func(t *testing.T) {
		first, second := opened(t.Name(), time.Minute), opened(t.Name(), time.Minute)
		defer first.Close()
		if err := first.Lock(); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error)
		go func() { waiting <- second.Lock() }()
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("Close ended Lock with %v", err)
		}
	})

	t.Run("lost", func(t *testing.T) {
		d := opened(t.Name(), time.Minute)
		defer d.Close()
		if err := d.Lock(); err != nil {
			t.Fatal(err)
		}
		status, err := locks.Inspect(t.Context(), "TestDriver"+t.Name())
		if err == nil {
			err = locks.Break(t.Context(), status.Name, status.Owner)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := servers.Poll(ctx, func() error {
			if err := d.SetVersion(1, true); err == nil {
				return errors.New("the lock is held")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, call := range []struct {
			method string
			err    error
		}{
			{"Run", d.Run(strings.NewReader("SELECT 1"))},
			{"SetVersion", d.SetVersion(1, false)},
			{"Drop", d.Drop()},
			{"Unlock", d.Unlock()},
		} {
			if !errors.Is(call.err, lockport.ErrLost) {
				t.Errorf("%s without the lock returned %v", call.method, call.err)
			}
		}
	})
}
