package table_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/table"
)

func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app:secret@localhost:6432/app?default_query_exec_mode=exec") // PgBouncer
	if err != nil {
		log.Fatal(err)
	}
	client, err := table.New(db, table.Postgres, table.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = lockport.Do(ctx, client, "nightly-report", func(ctx context.Context, lock *lockport.Lock) error {
		token, _ := lock.Token()
		fmt.Println("working under fencing token", token)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The statement for a migration.
func ExampleSchema() {
	statement, err := table.Schema(table.Postgres, table.Options{Table: "locks"})
	fmt.Println(statement, err)
	// Output:
	// CREATE TABLE IF NOT EXISTS locks (name text COLLATE "C" NOT NULL PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL, since bigint NOT NULL, expires bigint NOT NULL, abandoned text NOT NULL, abandoned_at bigint NOT NULL) <nil>
}
