package table

import (
	"context"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// held says of a row that somebody has the name.
const held = "owner <> '' AND expires > {now}"

// read reads the rows of names that are held, and that which, a condition, selects. Times are those of this machine's clock.
func (b *Backend) read(ctx context.Context, which string, named args) (all []driver.Status, err error) {
	a, err := b.run(ctx, driver.ErrUnavailable, "SELECT name, owner, token, since, expires, {now} FROM {table} WHERE "+held+which, named)
	for _, row := range a.rows {
		at := func(instant string) time.Time {
			return time.Now().Add(time.Duration(number(instant)-number(row[5])) * time.Microsecond)
		}
		all = append(all, driver.Status{Name: nameOf(row[0]), Held: true, Owner: row[1], Foreign: driver.OwnerClient(row[1]) == "",
			Token: uint64(number(row[2])), Since: at(row[3]), Expires: at(row[4]), Waiters: -1})
	}
	return all, err
}

// Inspect implements driver.Inspector. The table does not know who waits.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	all, err := b.read(ctx, " AND name = :name", args{"name": {column(name)}})
	if err != nil || len(all) == 0 {
		return driver.Status{Name: name, Waiters: -1}, err
	}
	return all[0], nil
}

// List implements driver.Inspector. It reads all rows of names that are held.
func (b *Backend) List(ctx context.Context, prefix string) (listed []driver.Status, err error) {
	all, err := b.read(ctx, "", nil)
	for _, st := range all {
		if strings.HasPrefix(st.Name, prefix) {
			listed = append(listed, st)
		}
	}
	return listed, err
}

// Break implements driver.Breaker. The holder is told at its next renewal.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.release(ctx, driver.Request{Name: name, Owner: owner})
}
