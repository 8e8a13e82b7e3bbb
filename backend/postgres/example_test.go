package postgres_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport"
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
	token, _ := lock.Token()
	fmt.Println("working under fencing token", token)
}

// By URL, as configuration has it.
func Example_url() {
	ctx := context.Background()
	client, err := lockport.Open(ctx, "postgres://app:password@db-1,db-2/app?sslmode=verify-full&target_session_attrs=primary&ttl=10s")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = lockport.Do(ctx, client, "nightly-report", func(ctx context.Context, l *lockport.Lock) error {
		return ctx.Err() // ends when the lock is lost
	})
	if err != nil {
		log.Print(err)
	}
}

// To meet other programs at keys that they have chosen.
func ExampleOptions() {
	pool, err := pgxpool.New(context.Background(), "postgres://app:password@localhost:5432/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	client, err := postgres.New(pool, postgres.Options{ExactKeys: true, TTL: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, err := client.Acquire(context.Background(), "42") // as SELECT pg_advisory_lock(42)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(context.Background())
}

// The session that holds a lock, for people who look at pg_stat_activity and pg_locks.
func ExampleSession() {
	ctx := context.Background()
	client, err := lockport.Open(ctx, "postgres://app:password@localhost:5432/app")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lock, err := client.Acquire(ctx, "account-7")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	var s postgres.Session
	if lock.As(&s) {
		fmt.Println("held by process", s.PID, "under key", s.Key)
	}
}
