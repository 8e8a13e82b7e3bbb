// Command goose-told shows a table locker whose lease passed to another, and which is told at its Unlock: go run ./repro/goose-told postgres://…
package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	u, err := url.Parse(os.Args[1])
	way.Check(err)
	direct, err := sql.Open("pgx", u.String())
	way.Check(err)
	through := way.To(u.Host)
	u.Host = through.Addr
	db, err := sql.Open("pgx", u.String())
	way.Check(err)
	ctx, first, second := context.Background(), locker(), locker()
	way.Check(first.Lock(ctx, db))
	through.Silence(true)
	way.Check(second.Lock(ctx, direct))
	through.Silence(false)
	fmt.Println("second has the lock, and first is told nothing until its Unlock:", first.Unlock(ctx, db))
}

func locker() lock.Locker {
	l, err := lock.NewPostgresTableLocker(lock.WithTableLeaseDuration(2*time.Second), lock.WithTableHeartbeatInterval(time.Second/2),
		lock.WithTableLockTimeout(time.Second/2, 20), lock.WithTableUnlockTimeout(time.Second/2, 1))
	way.Check(err)
	return l
}
