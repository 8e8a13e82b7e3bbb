// Command goose-retries shows a locker that retries its first Lock and not its second: go run ./repro/goose-retries postgres://…
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Args[1])
	way.Check(err)
	holder, err := lock.NewPostgresTableLocker()
	way.Check(err)
	way.Check(holder.Lock(ctx, db))
	waiter, err := lock.NewPostgresTableLocker(lock.WithTableLockTimeout(time.Second, 3))
	way.Check(err)
	for _, which := range []string{"first", "second"} {
		began := time.Now()
		err := waiter.Lock(ctx, db)
		fmt.Printf("the %s Lock, with a threshold of 3 retries, fails: %t, after more than 2s: %t\n", which, err != nil, time.Since(began) > 2*time.Second)
	}
	way.Check(holder.Unlock(ctx, db))
}
