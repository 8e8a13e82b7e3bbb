package libraries

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

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

const gooseModule = "github.com/pressly/goose/v3"

// GooseSession is goose's locker that takes an advisory lock.
var GooseSession = Subject{
	Name: "goose session lock", Library: "goose", Module: gooseModule, Environment: "postgres",
	Use: "NewPostgresSessionLocker on a *sql.Conn for each claim; one try of a second; the name's hash is the id",
	Promises: map[string]string{
		"P1": "NewPostgresSessionLocker: \"utilizes PostgreSQL's exclusive session-level advisory lock mechanism\"",
		"P5": "postgres.go: pg_advisory_unlock_all \"is implicitly invoked at session end, even if the client disconnects ungracefully\"",
	},
	Not:  manyLocks,
	Caps: driver.Capabilities{Ends: driver.EndsSession, FixedTTL: sessionTTL},
	Open: openGoose(gooseSession),
}

// GooseTable is goose's locker that keeps a row with a lease.
var GooseTable = Subject{
	Name: "goose table lock", Library: "goose", Module: gooseModule, Environment: "postgres",
	Use: "NewPostgresTableLocker with a lease of 2s and a heartbeat of 0.5s; a locker for each claim; the name's hash is the id",
	Promises: map[string]string{
		"P1": "NewPostgresTableLocker: \"keeps the lock alive automatically\"; \"Lock stays alive automatically until released\"",
		"P5": "NewPostgresTableLocker: \"If the process dies, others can take the lock after lease expires\"",
	},
	Not:  manyLocks,
	Caps: driver.Capabilities{Ends: driver.EndsSession, FixedTTL: sessionTTL},
	Open: openGoose(gooseTable),
}

var manyLocks = map[string]string{"cost/held-locks-stay": "300 locks need more connections than the server allows; the locker is made for the single lock of a migration"}

// lockID returns the lock id of a name.
func lockID(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64() >> 1)
}

// openGoose opens a database on which take makes the claims.
func openGoose(take func(ctx context.Context, db *sql.DB, c library.Claim, ttl time.Duration) (*library.Hold, error)) Opener {
	return func(_ context.Context, rawURL string, ttl time.Duration) (library.Client, error) {
		url, _, _ := strings.Cut(rawURL, "?") // drop lockport's parameters
		db, err := sql.Open("pgx", url)
		if err != nil {
			return library.Client{}, err
		}
		return library.Client{Close: db.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) { return take(ctx, db, c, ttl) }}, nil
	}
}

func gooseSession(ctx context.Context, db *sql.DB, c library.Claim, _ time.Duration) (*library.Hold, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(lockID(c.Name)), lock.WithLockTimeout(1, 1), lock.WithUnlockTimeout(1, 1))
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := locker.SessionLock(ctx, conn); err != nil {
		_ = conn.Close() // the claim's error says more
		return nil, gooseHeld(err, "failed to acquire lock")
	}
	return &library.Hold{Abort: func() { _ = conn.Close() }, Release: func(ctx context.Context) error {
		err := locker.SessionUnlock(ctx, conn)
		return errors.Join(library.LostIf(err != nil && strings.Contains(err.Error(), "failed to unlock session"), err), conn.Close())
	}}, nil
}

func gooseTable(ctx context.Context, db *sql.DB, c library.Claim, ttl time.Duration) (*library.Hold, error) {
	locker, err := lock.NewPostgresTableLocker(lock.WithTableLockID(lockID(c.Name)), lock.WithTableLeaseDuration(ttl),
		lock.WithTableHeartbeatInterval(ttl/4), lock.WithTableLockTimeout(100*time.Millisecond, 1), lock.WithTableUnlockTimeout(time.Second, 1))
	if err != nil {
		return nil, err
	}
	// The heartbeat ends with Lock's context, so that context must stay open while the lock is held.
	whole, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	err = locker.Lock(whole, db)
	stop()
	if err != nil {
		end()
		return nil, gooseHeld(err, "already held by another instance")
	}
	var once sync.Once // a second Unlock crashes the process: "must be called exactly once"
	return &library.Hold{Abort: end, Release: func(ctx context.Context) error {
		err := driver.ErrLost
		once.Do(func() {
			err = locker.Unlock(ctx, db)
			end()
		})
		return library.LostIf(err != nil && strings.Contains(err.Error(), "not held"), err)
	}}, nil
}

// gooseHeld returns ErrHeld if the error contains words: goose has no error type for it.
func gooseHeld(err error, words string) error {
	if strings.Contains(err.Error(), words) {
		return driver.ErrHeld
	}
	return err
}
