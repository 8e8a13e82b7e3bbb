package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/sqlfence"
)

// A transaction of database/sql on MySQL or MariaDB. The lock may be on any backend with tokens.
func Example() {
	var locks lockport.Locker
	var db *sql.DB
	ctx := context.Background()
	accounts, err := sqlfence.New(sqlfence.MySQL, "") // a migration has executed accounts.Schema()
	if err != nil {
		log.Fatal(err)
	}

	err = lockport.Do(ctx, locks, "account-7", func(ctx context.Context, l *lockport.Lock) error {
		token, _ := l.Token()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := accounts.Guard(ctx, tx, l.Name(), token); err != nil { // the first statement
			return err
		}
		var balance int
		if err := tx.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 7").Scan(&balance); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = ? WHERE id = 7", balance+100); err != nil {
			return err
		}
		return tx.Commit()
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("a newer holder has the account: nothing was written")
	}
}

// A transaction of pgx.
func ExampleFence_GuardPgx() {
	var pool *pgxpool.Pool
	var l *lockport.Lock // a hold
	ctx := context.Background()
	accounts, err := sqlfence.New(sqlfence.Postgres, "")
	if err != nil {
		log.Fatal(err)
	}

	token, _ := l.Token()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := accounts.GuardPgx(ctx, tx, l.Name(), token); err != nil { // the first statement
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE account SET balance = balance + 100 WHERE id = 7")
		return err
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("a newer holder has the account: nothing was written")
	}
}

// A holder that reads here, works elsewhere for a while, and writes later.
func ExampleFence_Register() {
	var db *sql.DB
	var l *lockport.Lock // a hold
	ctx := context.Background()
	reports, err := sqlfence.New(sqlfence.Postgres, "")
	if err != nil {
		log.Fatal(err)
	}

	token, _ := l.Token()
	if err := reports.Register(ctx, db, l.Name(), token); err != nil { // before any read
		log.Fatal(err)
	}
	// … read, and work; then write in transactions that begin with reports.Guard(ctx, tx, l.Name(), token).
}
