package mysql_test

import (
	"context"
	"fmt"
	"log"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/mysql"
)

func Example() {
	ctx := context.Background()
	cfg, err := gomysql.ParseDSN("app:secret@tcp(localhost:3306)/app")
	if err != nil {
		log.Fatal(err)
	}
	client, err := mysql.New(cfg, mysql.Options{}) // on sessions of its own, beside your pool
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
	cfg, err := gomysql.ParseDSN("app:secret@tcp(localhost:3306)/app")
	if err != nil {
		log.Fatal(err)
	}
	client, err := mysql.New(cfg, mysql.Options{ExactKeys: true}, lockport.WithoutHandOff())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}
