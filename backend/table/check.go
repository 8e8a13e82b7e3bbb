package table

import (
	"context"
	"errors"

	"github.com/lockport/lockport/driver"
)

// Check implements driver.Checker. It makes the table if the URL has create=true.
func (b *Backend) Check(ctx context.Context) (notices []driver.Notice, err error) {
	if err = b.try(ctx); b.create && errors.Is(err, driver.ErrRefused) {
		err = b.makeTable(ctx)
	}
	if err != nil {
		return nil, err
	}
	a, err := b.run(ctx, driver.ErrUnavailable, b.dialect.notices, nil)
	for _, row := range a.rows {
		notices = append(notices, risks[row[0]])
	}
	return notices, err
}

// try tries each right that locks need, and changes nothing.
func (b *Backend) try(ctx context.Context) (err error) {
	nobody := args{"names": {""}, "owners": {""}, "ttl": {0}}
	for _, statement := range []string{"SELECT 1 FROM {table} WHERE 1 = 0", renew + " AND 1 = 0", prune + " AND 1 = 0", "INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0"} {
		if err == nil {
			_, err = b.run(ctx, driver.ErrUnavailable, statement, nobody)
		}
	}
	return err
}

// risks are what the server's settings put at risk, by what dialect.notices answers.
var risks = map[string]driver.Notice{
	"durability": {ID: "durability", Text: "The server answers before a commit is on its disk: after a crash a lock that is held may be granted again.",
		Remedy: "Set synchronous_commit and fsync to on (Postgres), innodb_flush_log_at_trx_commit to 1 (MySQL), or synchronous to FULL (SQLite)."},
	"replication": {ID: "replication", Text: "The server does not wait for its replicas. One that is promoted may not know of a lock that is held here, and grants it again.",
		Remedy: "Make replication synchronous, or check fencing tokens where it matters."},
}
