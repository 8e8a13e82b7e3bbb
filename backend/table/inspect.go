package table

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// What is asked of rows: the columns, the server's clock, and whether the claim that asks was abandoned.
const (
	look = "SELECT name, owner, token, since, expires, {now}, {find}(abandoned, :id) FROM {table} WHERE name = :name"
	list = "SELECT name, owner, token, since, expires, {now} FROM {table} WHERE owner <> '' AND expires > {now}"
)

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

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

// look looks at the row of req.Name, and says whether that refuses req.Owner.
func (b *Backend) look(ctx context.Context, req driver.Request) (st driver.Status, refuses bool, err error) {
	a, err := b.run(ctx, driver.ErrUnavailable, look, argsOf(req))
	if err != nil || len(a.rows) == 0 {
		return driver.Status{Name: req.Name, Waiters: -1}, false, err
	}
	return status(a.rows[0]), a.rows[0][6] != "0", nil
}

// Inspect implements driver.Inspector. The table does not know who waits.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, _, err := b.look(ctx, driver.Request{Name: name, Owner: "-"})
	return st, err
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
