package postgres_test

import (
	"context"
	"database/sql"
	"errors"
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

// A lock that lasts as long as the caller's transaction, and needs no other connection.
func ExampleBackend_TryLockTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app:password@localhost:5432/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	locks, err := postgres.NewBackend(pool, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback(ctx)
	token, err := locks.TryLockTx(ctx, tx, "account-7")
	if errors.Is(err, lockport.ErrHeld) {
		return // somebody else works on it
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println("working under fencing token", token)
	if err := tx.Commit(ctx); err != nil { // and the lock is free
		log.Fatal(err)
	}
}

func ExampleBackend_LockSQLTx() {
	ctx := context.Background()
	const url = "postgres://app:password@localhost:5432/app"
	locks, err := postgres.NewBackendURL(url)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	db, err := sql.Open("pgx", url) // of github.com/jackc/pgx/v5/stdlib
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '5s'"); err != nil {
		log.Fatal(err)
	}
	if _, err := locks.LockSQLTx(ctx, tx, "account-7"); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
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
