package postgres_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport/backend/postgres"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app:password@localhost:5432/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	client, err := postgres.New(pool, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := client.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	// Work, and stop when lock.Lost() is closed.

	var s postgres.Session // as in pg_stat_activity and pg_locks
	if lock.As(&s) {
		fmt.Println("held by process", s.PID, "under key", s.Key)
	}
}
