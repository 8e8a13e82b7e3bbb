package table

import (
	"context"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// batches are how many names a statement may have: few numbers, so that a client library that keeps prepared statements keeps few. A list is filled up with its last.
var batches = []int{1, 8, 64, 500}

func filled(list []string) []string {
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
			var names, owners []string
			for _, i := range part {
				req := leases[i].(*claim).req
				names, owners = append(names, column(req.Name)), append(owners, req.Owner)
			}
			sent := time.Now()
			lost, err := b.renew(ctx, names, owners, ttl)
			for n, i := range part {
				switch {
				case err != nil:
					results[i].Err = err
				case lost[owners[n]]:
					results[i].Err = errLost
				default:
					results[i].Until = sent.Add(ttl)
				}
			}
		}
	}
}

const renew = "UPDATE {table} SET expires = {now} + :ttl WHERE expires > {now} AND name IN (:names) AND owner IN (:owners)"

// renew renews claims, and returns the owners of those that it has not found. An owner has one name.
func (b *Backend) renew(ctx context.Context, names, owners []string, ttl time.Duration) (lost map[string]bool, err error) {
	named := args{"names": filled(names), "owners": filled(owners), "ttl": micros(ttl)}
	a, err := b.run(ctx, driver.ErrUnknown, renew, named)
	if err != nil || a.changed == int64(len(owners)) {
		return nil, err
	}
	a, err = b.run(ctx, driver.ErrUnknown, "SELECT owner FROM {table} WHERE expires > {now} AND name IN (:names) AND owner IN (:owners)", named)
	lost = make(map[string]bool)
	for _, owner := range owners {
		lost[owner] = !slices.ContainsFunc(a.rows, func(row []string) bool { return row[0] == owner })
	}
	return lost, err
}

// pruneOneIn is how rarely a grant deletes old rows. Chance also works for processes that take one lock each.
const pruneOneIn = 1000

// Rows that nobody has touched for a week are deleted.
const (
	isOld = "expires < {now} - 604800000000 AND abandoned_at < {now} - 604800000000"
	prune = "DELETE FROM {table} WHERE " + isOld + " AND name IN (:names)"
)

// prune deletes some old rows, if it can: another grant will do so again.
func (b *Backend) prune(ctx context.Context) {
	a, err := b.run(ctx, driver.ErrUnknown, "SELECT name FROM {table} WHERE "+isOld+" LIMIT 500", nil)
	if err == nil && len(a.rows) > 0 {
		_, _ = b.run(ctx, driver.ErrUnknown, prune, args{"names": filled(slices.Concat(a.rows...))})
	}
}
