package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// What is asked of rows: the columns, and the server's clock.
const (
	look = "SELECT name, owner, token, since, expires, {now}, {find}(abandoned, :id) FROM {table} WHERE name = :name"
	list = "SELECT name, owner, token, since, expires, {now} FROM {table} WHERE owner <> '' AND expires > {now}"

	abandoned = 6 // the last column of look: not 0 if the claim was
)

// status tells of a row that was just read, in times of this machine's clock.
func status(row []string) driver.Status {
	st := driver.Status{Name: nameOf(row[0]), Waiters: -1}
	since, expires, now := number(row[3]), number(row[4]), number(row[5])
	if st.Held = row[1] != "" && expires > now; st.Held {
		st.Owner, st.Foreign, st.Token = row[1], driver.OwnerClient(row[1]) == "", uint64(number(row[2]))
		st.Since = time.Now().Add(time.Duration(since-now) * time.Microsecond)
		st.Expires = time.Now().Add(time.Duration(expires-now) * time.Microsecond)
	}
	return st
}

// Inspect implements driver.Inspector. The table does not know who waits.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	a, err := b.run(ctx, driver.ErrUnavailable, look, argsOf(driver.Request{Name: name, Owner: "-"}))
	if err != nil || len(a.rows) == 0 {
		return driver.Status{Name: name, Waiters: -1}, err
	}
	return status(a.rows[0]), nil
}

// List implements driver.Inspector. It reads all rows of names that are held.
func (b *Backend) List(ctx context.Context, prefix string) (held []driver.Status, err error) {
	a, err := b.run(ctx, driver.ErrUnavailable, list, nil)
	for _, row := range a.rows {
		if st := status(row); strings.HasPrefix(st.Name, prefix) {
			held = append(held, st)
		}
	}
	return held, err
}

// Break implements driver.Breaker. The holder is told at its next renewal.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	a, err := b.run(ctx, driver.ErrUnknown, release, argsOf(driver.Request{Name: name, Owner: owner}))
	if err == nil && a.changed == 0 {
		err = fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
	}
	return err
}

// Schema returns the statement that makes the table unless it is there: for a migration, or for a user who may not make tables. An error matches
// lockport.ErrInvalidOption.
func Schema(d Dialect, o Options) (string, error) {
	b, err := NewBackend(new(sql.DB), d, o)
	if err != nil {
		return "", err
	}
	return b.words.Replace(schema), nil
}

const schema = "CREATE TABLE IF NOT EXISTS {table} {schema}"

// CreateTable makes the table of db unless it is there. It needs the right to create tables, which locks do not.
func CreateTable(ctx context.Context, db *sql.DB, d Dialect, o Options) error {
	b, err := NewBackend(db, d, o)
	if err != nil {
		return err
	}
	return b.makeTable(ctx)
}

func (b *Backend) makeTable(ctx context.Context) error {
	_, err := b.run(ctx, driver.ErrUnavailable, schema, nil)
	if err != nil && b.try(ctx) == nil {
		return nil // somebody else has made it at the same moment
	}
	return err
}

// try tries what locks need, and changes nothing.
func (b *Backend) try(ctx context.Context) (err error) {
	nobody := args{"name": "", "id": "-", "names": []string{""}, "owners": []string{""}, "ttl": 0}
	for _, statement := range []string{look, renew, prune, "INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0"} {
		if err == nil {
			_, err = b.run(ctx, driver.ErrUnavailable, statement, nobody)
		}
	}
	return err
}

// Check implements driver.Checker. It makes the table if the URL has create=true.
func (b *Backend) Check(ctx context.Context) (notices []driver.Notice, err error) {
	err = b.try(ctx)
	if b.create && errors.Is(err, driver.ErrRefused) {
		err = b.makeTable(ctx)
	}
	if errors.Is(err, driver.ErrRefused) {
		err = fmt.Errorf("%w; the table is made by create=true in the URL, or by: %s", err, b.words.Replace(schema))
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

// risks are what the server's settings put at risk, by what dialect.notices answers.
var risks = map[string]driver.Notice{
	"durability": {ID: "durability", Text: "The server answers before a commit is on its disk: after a crash a lock that is held may be granted again, and the order of " +
		"fencing tokens rests on the server's clock.",
		Remedy: "Set synchronous_commit and fsync to on (Postgres), innodb_flush_log_at_trx_commit to 1 (MySQL), or synchronous to FULL (SQLite)."},
	"replication": {ID: "replication", Text: "The server has replicas that it does not wait for. One that is promoted may not know of a lock that is held here, and grants it again.",
		Remedy: "Make replication synchronous, or check fencing tokens where it matters."},
}
