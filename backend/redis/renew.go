package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// RenewBatch implements driver.BatchRenewer: up to 350 locks in one script. In a Cluster a script is limited to one slot, so each lock has
// its own call, in one pipeline per node and 350 locks.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	var both sync.WaitGroup // a hung node of a Cluster delays neither kind of lock on the others
	for _, beside := range []bool{false, true} {
		script, at, calls := redisscript.Renew, []int(nil), [][]any(nil)
		for i, l := range leases {
			if c := l.(*claim); c.beside() == beside {
				var call []any
				script, call = c.call(redisscript.Renew, c.ms())
				at, calls = append(at, i), append(calls, call)
			}
		}
		both.Go(func() {
			sent := time.Now()
			for i, r := range b.pipe.RunAll(ctx, script, calls) {
				results[at[i]] = leases[at[i]].(*claim).renewalOutcome(sent, r)
			}
		})
	}
	both.Wait()
}

// renewalOutcome converts the script's reply to a renewal.
func (c *claim) renewalOutcome(sent time.Time, r redisscript.Reply) driver.Renewal {
	waiting, ok := r.Value.(int64)
	gone, _ := r.Value.([]any)
	switch {
	case r.Err != nil:
		return driver.Renewal{Err: r.Err}
	case len(gone) == 1:
		c.b.claims.Leave(c)
		return driver.Renewal{Err: lost(gone[0])}
	case !ok:
		return driver.Renewal{Err: fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)}
	case r.Acked < c.b.o.Replicas:
		return driver.Renewal{Err: fmt.Errorf("%w: only %d of %d replicas acknowledged the renewal within %v",
			driver.ErrUnknown, r.Acked, c.b.o.Replicas, c.b.o.WaitTimeout)}
	}
	if waiting > 0 && c.Req.Contended != nil {
		c.Req.Contended()
	}
	return driver.Renewal{Until: sent.Add(c.Req.TTL)}
}
