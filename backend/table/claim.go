package table

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// claim is a claim, and the lease when it is granted.
type claim struct {
	b     *Backend
	req   driver.Request
	grant driver.Grant
}

// column is how the table has a name: as it is, save that a zero byte, which no text in Postgres has, is \0, and a backslash \\.
func column(name string) string { return strings.NewReplacer("\x00", `\0`, `\`, `\\`).Replace(name) }

func nameOf(column string) string {
	return strings.NewReplacer(`\0`, "\x00", `\\`, `\`).Replace(column)
}

// args are the arguments of the statements about one claim. Of an abandoned one, the random part of its owner is remembered.
func argsOf(req driver.Request) args {
	return args{"name": column(req.Name), "owner": req.Owner, "id": req.Owner[:min(len(req.Owner), 32)], "ttl": micros(req.TTL)}
}

// micros is a TTL for a server whose clock may have a grain of a millisecond.
func micros(ttl time.Duration) int64 { return ttl.Microseconds() + 1000 }

// maxTTL is far above what makes sense, and far below what overflows.
const maxTTL = math.MaxInt64 / 4

// TryAcquire implements driver.Backend, in one statement where the name is free, otherwise with a second one, which asks who has it.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL <= 0 || req.TTL > maxTTL {
		return nil, fmt.Errorf("%w: TTL %v is not from 1ms to %v", driver.ErrRefused, req.TTL, time.Duration(maxTTL))
	}
	_, again := b.late.LoadOrStore(req.Owner, true)
	sent := time.Now()
	a, err := b.run(ctx, driver.ErrUnknown, b.dialect.take, argsOf(req))
	if !errors.Is(err, driver.ErrUnknown) && !again {
		b.late.Delete(req.Owner)
	}
	if err != nil {
		return nil, err
	}
	token := a.id
	if len(a.rows) > 0 {
		token = number(a.rows[0][0])
	}
	switch {
	case token > driver.MaxToken:
		return nil, fmt.Errorf("%w: the table gives %d, which is no token: is the server's clock right?", driver.ErrUnknown, token)
	case token > 0:
		if rand.N(1000) == 0 { // chance also works for processes that take one lock each
			_, _ = b.run(ctx, driver.ErrUnknown, prune, nil)
		}
		return &claim{b, req, driver.Grant{Token: uint64(token), Until: sent.Add(req.TTL)}}, nil
	}
	switch st, refuses, err := b.look(ctx, req); {
	case err != nil:
		return nil, err
	case refuses:
		return nil, fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)
	case st.Held:
		return nil, &driver.HeldError{ExpiresIn: time.Until(st.Expires), Holder: st}
	}
	return nil, &driver.HeldError{ExpiresIn: time.Millisecond} // it has become free meanwhile
}

// prune deletes rows that nobody has touched for a week, 500 at most.
const (
	isOld = "expires < {now} - 604800000000 AND abandoned_at < {now} - 604800000000"
	prune = "DELETE FROM {table} WHERE " + isOld + " AND name IN (SELECT name FROM (SELECT name FROM {table} WHERE " + isOld + " LIMIT 500) AS old)"
)

// release ends a claim.
const release = "UPDATE {table} SET owner = '', expires = {now} WHERE name = :name AND owner = :owner AND expires > {now}"

// Abandon implements driver.Backend. A claim that may still be on its way is remembered in the row of its name, so that it is not granted when it arrives: for a
// minute at least, unless a thousand others of that name are abandoned meanwhile.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	statement := release
	if _, late := b.late.Load(req.Owner); late {
		statement = b.dialect.bury
	}
	_, err := b.run(ctx, driver.ErrUnknown, statement, argsOf(req))
	if err == nil {
		b.late.Delete(req.Owner)
	}
	return err
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Release implements driver.Lease, in one statement.
func (c *claim) Release(ctx context.Context) error {
	a, err := c.b.run(ctx, driver.ErrUnknown, release, argsOf(c.req))
	if _, late := c.b.late.Load(c.req.Owner); late && err == nil { // it was asked for twice, and the first request was not answered
		err = c.b.Abandon(ctx, c.req)
	}
	if err == nil && a.changed == 0 {
		err = errLost
	}
	return err
}

// errLost is what it means that no row of the claim was found.
var errLost = fmt.Errorf("%w: its row has another owner, or its TTL has passed", driver.ErrLost)

// batches are how many names a statement may have: few numbers, so that a client library that keeps prepared statements keeps few. A list is filled up with its last.
var batches = []int{1, 8, 64, 500}

func filled(list []any) []any {
	i := slices.IndexFunc(batches, func(size int) bool { return len(list) <= size })
	return append(slices.Clip(list), slices.Repeat(list[len(list)-1:], batches[i]-len(list))...)
}

// RenewBatch implements driver.BatchRenewer: 500 claims of one TTL in one statement, and another one where it has not found them all.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	byTTL := make(map[time.Duration][]int)
	for i, l := range leases {
		ttl := l.(*claim).req.TTL
		byTTL[ttl] = append(byTTL[ttl], i)
	}
	for ttl, all := range byTTL {
		for part := range slices.Chunk(all, batches[len(batches)-1]) {
			var names, owners []any
			for _, i := range part {
				req := leases[i].(*claim).req
				names, owners = append(names, column(req.Name)), append(owners, req.Owner)
			}
			sent := time.Now()
			isLost, err := b.renew(ctx, args{"names": filled(names), "owners": filled(owners), "ttl": micros(ttl)}, len(part))
			for n, i := range part {
				results[i] = driver.Renewal{Until: sent.Add(ttl)}
				if err != nil {
					results[i] = driver.Renewal{Err: err}
				} else if isLost(owners[n]) {
					results[i] = driver.Renewal{Err: errLost}
				}
			}
		}
	}
}

const (
	ofMany = " WHERE expires > {now} AND name IN (:names) AND owner IN (:owners)"
	renew  = "UPDATE {table} SET expires = {now} + :ttl" + ofMany
)

// renew renews n claims, and tells which owners' it has not found. An owner has one name.
func (b *Backend) renew(ctx context.Context, named args, n int) (isLost func(owner any) bool, err error) {
	a, err := b.run(ctx, driver.ErrUnknown, renew, named)
	if err != nil || a.changed == int64(n) {
		return func(any) bool { return false }, err
	}
	a, err = b.run(ctx, driver.ErrUnknown, "SELECT owner FROM {table}"+ofMany, named)
	return func(owner any) bool {
		return !slices.ContainsFunc(a.rows, func(row []string) bool { return row[0] == owner })
	}, err
}
