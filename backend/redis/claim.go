package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// claim is the state of one owner id: a pending or waiting claim, then the lease. Keys and value are rebuilt for each request, since
// storing them would make a held lock half as large again.
type claim struct {
	redisclaims.Claim
	b     *Backend
	grant driver.Grant
}

func (b *Backend) newClaim(req driver.Request) *claim {
	return &claim{Claim: redisclaims.Claim{Req: req}, b: b}
}

// The purposes of side keys.
const (
	readersKey      = "readers"
	permitsKey      = "permits"
	permitsQueueKey = "permits-queue"
)

// keysOf returns the keys of the lock on name: the lock, the queue, and the last token of the server or slot.
func (b *Backend) keysOf(name string) []string {
	keys := b.layout.Keys(name)
	return append(keys, redisscript.LastToken(keys[0], b.pipe.Cluster()))
}

// besideKeys are the keys for readers or, if permits > 0, for permits, which have their own queue. The set of holders comes last.
func (b *Backend) besideKeys(name string, permits int) []string {
	keys, holders := b.keysOf(name), readersKey
	if permits > 0 {
		keys[1], holders = redisscript.Side(keys[0], permitsQueueKey), permitsKey
	}
	return append(keys, redisscript.Side(keys[0], holders))
}

// beside reports whether the claim holds its name beside others: a reader or a permit.
func (c *claim) beside() bool { return c.Req.Shared || c.Req.Permits > 0 }

// call makes a call of script, whose arguments are the claim's value and argv. For a claim beside others it uses script.Beside, whose
// arguments are the owner, the number of permits and argv.
func (c *claim) call(script *redisscript.Script, argv ...any) redisscript.Call {
	if c.beside() {
		return script.Beside.Call(c.b.besideKeys(c.Req.Name, c.Req.Permits), append([]any{c.Req.Owner, c.Req.Permits}, argv...)...)
	}
	return script.Call(c.b.keysOf(c.Req.Name), append([]any{c.value()}, argv...)...)
}

// run makes a call of script and runs it.
func (c *claim) run(ctx context.Context, script *redisscript.Script, argv ...any) redisscript.Reply {
	return c.b.pipe.Run(ctx, c.call(script, argv...))
}

// value is the lock's value while the claim holds it.
func (c *claim) value() string { return redisscript.Value(c.Req.Owner) }

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Entry is what Lock.As returns for a lock on Redis; see As.
type Entry struct {
	Key, Value string // a transaction that finds Value at Key (WATCH, GET) knows that the lock is still held
}

// As sets target if it is an *Entry. Readers and permits have no Entry: no single value proves that they are held.
func (c *claim) As(target any) bool {
	e, ok := target.(*Entry)
	if ok = ok && !c.beside(); ok {
		*e = Entry{Key: c.b.layout.Key(c.Req.Name), Value: c.value()}
	}
	return ok
}

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

// Release implements driver.Lease, in one request.
func (c *claim) Release(ctx context.Context) error {
	return c.releaseOutcome(c.run(ctx, redisscript.Release))
}

// releaseOutcome converts the reply to a release.
func (c *claim) releaseOutcome(r redisscript.Reply) error {
	if r.Err != nil {
		return r.Err
	}
	c.b.claims.Leave(c)
	if r.Value != int64(1) {
		return lost(r.Value)
	}
	return nil
}

// lost says from a script's reply who has the lock instead.
func lost(reply any) error {
	value, ok := reply.(string)
	switch {
	case !ok:
		return fmt.Errorf("%w: it is gone from Redis: it expired, or was deleted or evicted", driver.ErrLost)
	case value == "":
		return fmt.Errorf("%w: its key was overwritten with a value that is not a string", driver.ErrLost)
	case value == redisscript.Readers:
		return fmt.Errorf("%w: readers hold it now", driver.ErrLost)
	}
	if owner, foreign := redisscript.Owner(value); !foreign {
		return fmt.Errorf("%w: %q holds it now", driver.ErrLost, owner)
	}
	return fmt.Errorf("%w: a foreign client overwrote it with %.100q", driver.ErrLost, value)
}
