package mysql_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/lockport/lockport/backend/mysql"
)

func Example() {
	ctx := context.Background()
	db, err := sql.Open("mysql", "app:secret@tcp(localhost:3306)/app")
	if err != nil {
		log.Fatal(err)
	}
	client, err := mysql.New(db, mysql.Options{}) // it takes one to five connections from db
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
}
