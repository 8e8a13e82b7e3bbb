package main

import (
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/pressly/goose/v3/lock"

	"github.com/lockport/lockport/driver"
)

// gooseTTL is the lease of its table locker, which its user chooses, and the bound within which a session ends.
const gooseTTL = 2 * time.Second

const gooseModule = "github.com/pressly/goose/v3"

var gooseSessionSubject = Subject{
	Name: "goose session lock", Module: gooseModule, Environment: "postgres",
	Use: "NewPostgresSessionLocker on a *sql.Conn for each claim; one try of a second; the name's hash is the id",
	Promises: map[string]string{
		"P1": "NewPostgresSessionLocker: \"utilizes PostgreSQL's exclusive session-level advisory lock mechanism\"",
		"P5": "postgres.go: pg_advisory_unlock_all \"is implicitly invoked at session end, even if the client disconnects ungracefully\"",
	},
	Not:  manyLocks,
	Open: openGooseSession,
}

var gooseTableSubject = Subject{
	Name: "goose table lock", Module: gooseModule, Environment: "postgres",
	Use: "NewPostgresTableLocker with a lease of 2s and a heartbeat of 0.5s; a locker for each claim; the name's hash is the id",
	Promises: map[string]string{
		"P1": "NewPostgresTableLocker: \"keeps the lock alive automatically\"; \"Lock stays alive automatically until released\"",
		"P5": "NewPostgresTableLocker: \"If the process dies, others can take the lock after lease expires\"",
	},
	Not:  manyLocks,
	Open: openGooseTable,
}

// gooseDB is a database without lockport's own parameters.
func gooseDB(rawURL string) (*sql.DB, error) {
	url, _, _ := strings.Cut(rawURL, "?")
	return sql.Open("pgx", url)
}

var manyLocks = map[string]string{"cost/held-locks-stay": "300 locks need more connections than the server lets in; it is for the one lock of a migration"}

// lockID is that of a name.
func lockID(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64() >> 1)
}

func openGooseSession(_ context.Context, rawURL string) (driver.Backend, error) {
	db, err := gooseDB(rawURL)
	if err != nil {
		return nil, err
	}
	return &thin{
		caps: driver.Capabilities{Backend: "goose session lock", Ends: driver.EndsSession, FixedTTL: gooseTTL},
		end:  db.Close,
		take: func(ctx context.Context, req driver.Request, _ bool) (*hold, error) {
			locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID(req.Name)), lock.WithLockTimeout(1, 1), lock.WithUnlockTimeout(1, 1))
			if err != nil {
				return nil, err
			}
			conn, err := db.Conn(ctx)
			if err != nil {
				return nil, err
			}
			if err := locker.SessionLock(ctx, conn); err != nil {
				_ = conn.Close() // the error of the claim says more
				return nil, gooseHeld(err, "failed to acquire lock")
			}
			return &hold{abort: func() { _ = conn.Close() }, release: func(ctx context.Context) error {
				err := locker.SessionUnlock(ctx, conn)
				return errors.Join(lostIf(err != nil && strings.Contains(err.Error(), "failed to unlock session"), err), conn.Close())
			}}, nil
		},
	}, nil
}

func openGooseTable(_ context.Context, rawURL string) (driver.Backend, error) {
	db, err := gooseDB(rawURL)
	if err != nil {
		return nil, err
	}
	return &thin{
		caps: driver.Capabilities{Backend: "goose table lock", Ends: driver.EndsSession, FixedTTL: gooseTTL},
		end:  db.Close,
		take: func(ctx context.Context, req driver.Request, _ bool) (*hold, error) {
			locker, err := lock.NewPostgresTableLocker(lock.WithTableLockID(lockID(req.Name)), lock.WithTableLeaseDuration(gooseTTL),
				lock.WithTableHeartbeatInterval(gooseTTL/4), lock.WithTableLockTimeout(100*time.Millisecond, 1), lock.WithTableUnlockTimeout(time.Second, 1))
			if err != nil {
				return nil, err
			}
			// Its heartbeat ends with the context of Lock, which its user leaves open for as long as the lock is held.
			whole, end := context.WithCancel(context.WithoutCancel(ctx))
			stop := context.AfterFunc(ctx, end)
			err = locker.Lock(whole, db)
			stop()
			if err != nil {
				end()
				return nil, gooseHeld(err, "already held by another instance")
			}
			var once sync.Once // a second Unlock ends the process: "must be called exactly once"
			return &hold{abort: end, release: func(ctx context.Context) error {
				err := driver.ErrLost
				once.Do(func() {
					err = locker.Unlock(ctx, db)
					end()
				})
				return lostIf(err != nil && strings.Contains(err.Error(), "not held"), err)
			}}, nil
		},
	}, nil
}

// gooseHeld is ErrHeld where the error has these words: it is of no type.
func gooseHeld(err error, words string) error {
	if strings.Contains(err.Error(), words) {
		return driver.ErrHeld
	}
	return err
}
