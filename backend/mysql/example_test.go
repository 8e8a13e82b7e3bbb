package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/mysql"
)

func Example() {
	ctx := context.Background()
	db, err := sql.Open("mysql", "app:secret@tcp(localhost:3306)/app")
	if err != nil {
		log.Fatal(err)
	}
	client, err := mysql.New(db, mysql.Options{}) // it keeps one to five connections of db
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
	client, err := lockport.Open(ctx, "mysql://app:secret@db.example.com/app?tls=true&ttl=30s")
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

// With programs in other languages that call GET_LOCK('nightly-report', …).
func Example_mixedFleet() {
	db, err := sql.Open("mysql", "app:secret@tcp(localhost:3306)/app")
	if err != nil {
		log.Fatal(err)
	}
	client, err := mysql.New(db, mysql.Options{ExactKeys: true}, lockport.WithoutHandOff())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}
