package table

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// claim is a granted claim.
type claim struct {
	b     *Backend
	req   driver.Request
	grant driver.Grant
}

// column encodes a name for the table: a zero byte, which Postgres text cannot have, becomes \0, and a backslash \\. nameOf reverses it.
var column, nameOf = strings.NewReplacer("\x00", `\0`, `\`, `\\`).Replace, strings.NewReplacer(`\0`, "\x00", `\\`, `\`).Replace

// micros allows for a server whose clock has a grain of a millisecond.
func micros(ttl time.Duration) int64 { return ttl.Microseconds() + 1000 }

// enter admits claims and Abandons in order: database/sql would admit them at random, and renewals would queue behind those that wait for a row.
func (b *Backend) enter(ctx context.Context) (leave func(), err error) {
	if b.turns == nil {
		return func() {}, nil
	}
	select {
	case b.turns <- struct{}{}:
		return func() { <-b.turns }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err())
	}
}

// TryAcquire implements driver.Backend, in one statement if the name is free; if not, a second one reads the holder.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	leave, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	a, err := b.run(ctx, driver.ErrUnknown, b.dialect.take, column(req.Name), req.Owner, micros(req.TTL))
	if err != nil {
		return nil, err
	}
	token := a.id
	if len(a.rows) > 0 {
		token = a.rows[0].Number(0)
	}
	switch {
	case token > driver.MaxToken:
		return nil, fmt.Errorf("%w: the table returned %d, which is not a token: is the server's clock right?", driver.ErrUnknown, token)
	case token > 0:
		return &claim{b, req, driver.Grant{Token: uint64(token), Until: a.sent.Add(req.TTL)}}, nil
	}
	st, err := b.Inspect(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	if !st.Held { // the name is free by now, or a proxy asked a replica that lags, perhaps for long
		return nil, &driver.HeldError{Poll: 60 * time.Millisecond}
	}
	return nil, &driver.HeldError{ExpiresIn: max(time.Millisecond, time.Until(st.Expires)-time.Millisecond), Holder: st} // without what micros adds
}

const (
	pruneEvery = 1000 // claims
	pruneBatch = 500  // rows
	// isOld is true of a row that nobody needs: not one whose token is ahead of the clock.
	isOld = "expires < {now} - 604800000000 AND abandoned_at < {now} - 604800000000 AND token < {now}"
)

// tidy prunes after one claim in pruneEvery. It uses a claim's connection, so that renewals need not queue, and takes a second at most.
func (b *Backend) tidy(ctx context.Context) {
	if b.ended.Add(1)%pruneEvery > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if leave, err := b.enter(ctx); err == nil {
		defer leave()
		_ = b.prune(ctx) // if it fails, a later one does it
	}
}

// prune deletes rows untouched for a week: at most four times as many as arrive. It locks no others: MySQL's DELETE with a subquery would.
func (b *Backend) prune(ctx context.Context) error {
	old, err := b.run(ctx, driver.ErrUnavailable, fmt.Sprint("SELECT name FROM {table} WHERE "+isOld+" LIMIT ", 4*pruneEvery))
	for some := range slices.Chunk(old.rows, pruneBatch) {
		names := make([]any, pruneBatch)
		for i := range names { // the last name fills the list up, so that there is one statement to prepare
			names[i] = some[min(i, len(some)-1)].Text(0)
		}
		if err == nil {
			_, err = b.run(ctx, driver.ErrUnknown, "{delete} WHERE "+isOld+" AND name IN "+list(pruneBatch), names...)
		}
	}
	return err
}

// list is a list of n placeholders.
func list(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// Abandon implements driver.Backend. The claim may still be in flight: the row of its name remembers it, so that it is not granted on arrival.
// The row does so for at least a minute, unless a thousand other claims of the name are abandoned meanwhile.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	defer b.tidy(ctx)
	leave, err := b.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	_, err = b.run(ctx, driver.ErrUnknown, abandon, column(req.Name), req.Owner[:min(len(req.Owner), 32)], req.Owner)
	return err
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Release implements driver.Lease, in one statement.
func (c *claim) Release(ctx context.Context) error {
	defer c.b.tidy(ctx)
	return c.b.Break(ctx, c.req.Name, c.req.Owner)
}

const (
	held    = "owner <> '' AND expires > {now}" // the name is held
	release = "UPDATE {table} SET owner = '', expires = {now} WHERE " + held + " AND name = ? AND owner = ?"
	// On MySQL, {now} stands still while a statement waits for a row: one that waited long must not shorten what a later one has confirmed.
	renew = "UPDATE {table} SET expires = {greatest}(expires, {now} + ?) WHERE " + held + " AND "
	// The array is made once, before the update, and its rows stay locked.
	lockable, lockableEnd = "name = ANY(ARRAY(SELECT name FROM {table} WHERE ", " FOR NO KEY UPDATE SKIP LOCKED)) RETURNING owner"
)

// Break implements driver.Breaker. The holder is told at its next renewal.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	a, err := b.run(ctx, driver.ErrUnknown, release, column(name), owner)
	if err != nil || a.changed > 0 {
		return err
	}
	return errLost
}

// errLost: no row of the claim was found.
var errLost = fmt.Errorf("%w: its row has another owner, or its TTL has passed", driver.ErrLost)

const (
	renewedTogether = 1024
	// patience is how long renewals wait for rows that other transactions have locked, as abandoned claims do until their commits.
	patience = 250 * time.Millisecond
)

// RenewBatch implements driver.BatchRenewer: one statement for 1024 claims, and a second one if that did not renew them all. Where it can, it skips
// locked rows at first, so that the transaction that keeps one of them ends no other hold.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	var places []int // of the claims skipped
	var skipped []driver.Lease
	for from := 0; from < len(leases); from += renewedTogether {
		to := min(from+renewedTogether, len(leases))
		for _, i := range b.renew(ctx, leases[from:to], results[from:to], b.dialect.skips) {
			places, skipped = append(places, from+i), append(skipped, leases[from+i])
		}
	}
	if n := min(len(skipped), renewedTogether); n > 0 {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		again := make([]driver.Renewal, n)
		b.renew(ctx, skipped[:n], again, false)
		for i, r := range again {
			results[places[i]] = r
		}
	}
}

// renew renews at most renewedTogether claims. With skip, it returns the places of those whose rows are locked.
func (b *Backend) renew(ctx context.Context, leases []driver.Lease, results []driver.Renewal, skip bool) (skipped []int) {
	ttl, n := leases[0].(*claim).req.TTL, 1<<bits.Len(uint(len(leases)-1))
	names, owners := make([]any, n), make([]any, n)
	for i := range n { // the last claim fills the lists up, so that there are few statements to prepare
		req := leases[min(i, len(leases)-1)].(*claim).req
		names[i], owners[i] = column(req.Name), req.Owner
	}
	where, args := "name IN "+list(n)+" AND owner IN "+list(n), append(names, owners...)
	statement := renew + where
	if skip {
		statement = renew + lockable + where + lockableEnd
	}
	a, err := b.run(ctx, driver.ErrUnknown, statement, append([]any{micros(ttl)}, args...)...)
	renewed, there := make(map[string]bool), make(map[string]bool) // by owner
	missed := err == nil && a.changed+int64(len(a.rows)) < int64(len(leases))
	if missed {
		for _, row := range a.rows {
			renewed[row.Text(0)] = true
		}
		var all []driver.Status
		all, err = b.read(ctx, " AND "+where, args...)
		for _, st := range all {
			there[st.Owner] = true
		}
	}
	for i, l := range leases {
		switch owner := l.(*claim).req.Owner; {
		case renewed[owner]:
			results[i].Until = a.sent.Add(ttl)
		case err != nil:
			results[i].Err = err
		case missed && !there[owner]:
			results[i].Err = errLost
		case missed && skip:
			skipped = append(skipped, i)
		default:
			results[i].Until = a.sent.Add(ttl)
		}
	}
	return skipped
}

// read returns the status of held names, limited by the SQL condition where. Times are by this machine's clock.
func (b *Backend) read(ctx context.Context, where string, args ...any) (all []driver.Status, err error) {
	a, err := b.run(ctx, driver.ErrUnavailable, "SELECT name, owner, token, since, expires, {now} FROM {table} WHERE "+held+where, args...)
	for _, row := range a.rows {
		at := func(instant int) time.Time { // another program may never let its hold end
			return time.UnixMicro(time.Now().UnixMicro() + min(row.Number(instant)-row.Number(5), driver.MaxTTL.Microseconds()))
		}
		all = append(all, driver.Status{Name: nameOf(row.Text(0)), Held: true, Owner: row.Text(1), Foreign: driver.OwnerClient(row.Text(1)) == "",
			Token: uint64(row.Number(2)), Since: at(3), Expires: at(4), Waiters: -1})
	}
	return all, err
}

// Inspect implements driver.Inspector. The table does not know the waiters.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	all, err := b.read(ctx, " AND name = ?", column(name))
	if err != nil || len(all) == 0 {
		return driver.Status{Name: name, Waiters: -1}, err
	}
	return all[0], nil
}

// List implements driver.Inspector. It reads the rows of all held names.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	all, err := b.read(ctx, "")
	return slices.DeleteFunc(all, func(st driver.Status) bool { return !strings.HasPrefix(st.Name, prefix) }), err
}
