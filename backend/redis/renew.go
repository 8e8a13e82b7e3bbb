package redis

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// RenewBatch implements driver.BatchRenewer: up to 350 locks in one script. In a Cluster a script is limited to one slot, so each lock has
// its own call, in one pipeline per node and 350 locks.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	calls := make([]redisscript.Call, len(leases))
	for i, l := range leases {
		c := l.(*claim)
		calls[i] = c.call(redisscript.Renew, c.TTL())
	}
	sent := time.Now()
	for i, r := range b.pipe.RunAll(ctx, calls) {
		results[i] = leases[i].(*claim).renewalOutcome(sent, r)
	}
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
		return driver.Renewal{Err: r.Unexpected()}
	case r.Unacked != nil:
		return driver.Renewal{Err: r.Unacked}
	}
	if waiting > 0 && c.Req.Contended != nil {
		c.Req.Contended()
	}
	return driver.Renewal{Until: sent.Add(c.Req.TTL)}
}
