package table

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// claim is a claim that was granted.
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

// argsOf are the arguments of the statements about one claim. Of an abandoned one, the random part of its owner is remembered.
func argsOf(req driver.Request) args {
	return args{"name": {column(req.Name)}, "owner": {req.Owner}, "id": {req.Owner[:min(len(req.Owner), 32)]}, "ttl": {micros(req.TTL)}}
}

// micros is a TTL for a server whose clock may have a grain of a millisecond.
func micros(ttl time.Duration) int64 { return ttl.Microseconds() + 1000 }

// maxTTL is far above what makes sense, and far below what overflows.
const maxTTL = math.MaxInt64 / 4

// TryAcquire implements driver.Backend, in one statement where the name is free, otherwise with a second one, which asks who has it.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL < capabilities.MinTTL || req.TTL > maxTTL {
		return nil, fmt.Errorf("%w: TTL %v is not from %v to %v", driver.ErrRefused, req.TTL, capabilities.MinTTL, time.Duration(maxTTL))
	}
	sent := time.Now()
	a, err := b.run(ctx, driver.ErrUnknown, b.dialect.take, argsOf(req))
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
	st, err := b.Inspect(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	left := time.Until(st.Expires) - time.Millisecond // without what micros adds; less than nothing if it has become free meanwhile
	return nil, &driver.HeldError{ExpiresIn: max(left, time.Millisecond), Holder: st}
}

// prune deletes rows that nobody has touched for a week, 500 at most.
const (
	isOld = "expires < {now} - 604800000000 AND abandoned_at < {now} - 604800000000"
	prune = "DELETE FROM {table} WHERE " + isOld + " AND name IN (SELECT name FROM (SELECT name FROM {table} WHERE " + isOld + " LIMIT 500) AS old)"
)

// Abandon implements driver.Backend. The claim may still be on its way: the row of its name remembers it, so that it is not granted when it arrives. It does so for a
// minute at least, unless a thousand other claims of that name are abandoned meanwhile.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	_, err := b.run(ctx, driver.ErrUnknown, b.dialect.bury, argsOf(req))
	return err
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Release implements driver.Lease, in one statement.
func (c *claim) Release(ctx context.Context) error { return c.b.release(ctx, c.req) }

const release = "UPDATE {table} SET owner = '', expires = {now} WHERE " + held + " AND name = :name AND owner = :owner"

func (b *Backend) release(ctx context.Context, req driver.Request) error {
	a, err := b.run(ctx, driver.ErrUnknown, release, argsOf(req))
	if err == nil && a.changed == 0 {
		err = errLost
	}
	return err
}

// errLost is what it means that no row of the claim was found.
var errLost = fmt.Errorf("%w: its row has another owner, or its TTL has passed", driver.ErrLost)

const (
	ofMany = " AND name IN (:names) AND owner IN (:owners)"
	renew  = "UPDATE {table} SET expires = {now} + :ttl WHERE " + held + ofMany
)

// RenewBatch implements driver.BatchRenewer: 512 claims of one TTL in one statement, and another one where that has not found them all.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	byTTL := make(map[time.Duration][]int)
	for i, l := range leases {
		ttl := l.(*claim).req.TTL
		byTTL[ttl] = append(byTTL[ttl], i)
	}
	for ttl, all := range byTTL {
		for part := range slices.Chunk(all, 512) {
			b.renewPart(ctx, ttl, leases, part, results)
		}
	}
}

// renewPart renews the leases with the numbers of part.
func (b *Backend) renewPart(ctx context.Context, ttl time.Duration, leases []driver.Lease, part []int, results []driver.Renewal) {
	named := args{"ttl": {micros(ttl)}}
	for i := range 1 << bits.Len(uint(len(part)-1)) { // the last one fills the lists up: a client library that keeps prepared statements keeps few
		req := leases[part[min(i, len(part)-1)]].(*claim).req
		named["names"], named["owners"] = append(named["names"], column(req.Name)), append(named["owners"], req.Owner)
	}
	sent := time.Now()
	a, err := b.run(ctx, driver.ErrUnknown, renew, named)
	var there []driver.Status
	missed := err == nil && a.changed < int64(len(part))
	if missed {
		there, err = b.read(ctx, ofMany, named)
	}
	for _, i := range part {
		isIt := func(st driver.Status) bool { return st.Owner == leases[i].(*claim).req.Owner }
		switch results[i] = (driver.Renewal{Err: err}); {
		case err != nil:
		case missed && !slices.ContainsFunc(there, isIt):
			results[i].Err = errLost
		default:
			results[i].Until = sent.Add(ttl)
		}
	}
}
