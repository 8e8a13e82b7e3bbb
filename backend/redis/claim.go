package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// claim is what this backend knows of one owner id: a claim that is being made or waits, and then the lease. Its keys and its value are made for each
// request: a held lock that kept them would be half as large again.
type claim struct {
	redisclaims.Claim
	b     *Backend
	grant driver.Grant
	looks int // of a reader, at readers that have the name: every look but the first calls the writer before it
}

func (b *Backend) newClaim(req driver.Request) redisclaims.Member {
	c := &claim{b: b}
	c.Req = req
	return c
}

// What the side keys are for.
const (
	queueKey        = "queue"
	tokenKey        = "token"
	readersKey      = "readers"
	permitsKey      = "permits"
	permitsQueueKey = "permits-queue"
)

// keysOf are the keys of the lock with the key, as the scripts take them that grant: the lock, the queue, the last token of the server or of the slot, and that
// of the name, of an earlier release of lockport. Other scripts take the first two.
func (b *Backend) keysOf(lock string) []string {
	return []string{lock, redisscript.Side(lock, queueKey), redisscript.LastToken(lock, b.pipe.Cluster()), redisscript.Side(lock, tokenKey)}
}

// besideKeys are those for the readers of a lock or, with permits, for the permits of its name: these have a queue of their own. Last comes the set of holders.
func (b *Backend) besideKeys(lock string, permits int) []string {
	keys, holders := b.keysOf(lock), readersKey
	if permits > 0 {
		keys[1], holders = redisscript.Side(lock, permitsQueueKey), permitsKey
	}
	return append(keys, redisscript.Side(lock, holders))
}

// beside says that the claim holds its name beside others: that of a reader, or one for a permit.
func (c *claim) beside() bool { return c.Req.Shared || c.Req.Permits > 0 }

// call makes a call of script, with what its arguments have behind the claim's value; or of the script that does the same beside others, where owner and number
// of permits stand for the value.
func (c *claim) call(script *redisscript.Script, argv ...any) (*redisscript.Script, []any) {
	lock := c.b.layout.Key(c.Req.Name)
	if c.beside() {
		script = script.Beside()
		return script, script.Call(c.b.besideKeys(lock, c.Req.Permits), append([]any{c.Req.Owner, c.Req.Permits}, argv...)...)
	}
	var keys []string
	switch script {
	case redisscript.Renew: // of which there are thousands in a request
		keys = []string{lock}
	case redisscript.Release:
		keys = []string{lock, redisscript.Side(lock, queueKey)}
	default:
		keys = c.b.keysOf(lock)
	}
	return script, script.Call(keys, append([]any{c.value()}, argv...)...)
}

// run runs what call makes.
func (c *claim) run(ctx context.Context, script *redisscript.Script, argv ...any) redisscript.Reply {
	script, args := c.call(script, argv...)
	return c.b.pipe.Run(ctx, script, args)
}

// value is what the claim writes into the lock.
func (c *claim) value() string { return redisscript.Value(c.Req.Owner) }

// ms is the TTL, rounded up.
func (c *claim) ms() int64 { return int64((c.Req.TTL + time.Millisecond - 1) / time.Millisecond) }

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Entry is what Lock.As gives of a lock on Redis: see As.
type Entry struct {
	Key, Value string // what a transaction must find (WATCH, GET) to be sure that the lock is still held
}

// As sets target if it is an *Entry. Readers and permits have none: no single value says that they are held.
func (c *claim) As(target any) bool {
	e, ok := target.(*Entry)
	if ok = ok && !c.beside(); ok {
		*e = Entry{Key: c.b.layout.Key(c.Req.Name), Value: c.value()}
	}
	return ok
}

// Release implements driver.Lease, in one request.
func (c *claim) Release(ctx context.Context) error {
	r := c.run(ctx, redisscript.Release)
	if r.Err != nil {
		return r.Err
	}
	return c.released(r.Value)
}

// released makes the outcome of a release of what the server said.
func (c *claim) released(reply any) error {
	c.b.claims.Leave(c)
	if reply != int64(1) {
		return lost(reply)
	}
	return nil
}

// Broken implements redisclaims.Member: somebody has broken the claim by force.
func (c *claim) Broken() {
	c.b.claims.Leave(c)
	if c.Req.Lost != nil {
		c.Req.Lost(fmt.Errorf("%w: it was broken by force", driver.ErrLost))
	}
}

// lost says who has the lock instead, by what a script replied.
func lost(reply any) error {
	value, ok := reply.(string)
	switch {
	case !ok:
		return fmt.Errorf("%w: it is gone from Redis: it expired, or was deleted or evicted", driver.ErrLost)
	case value == "":
		return fmt.Errorf("%w: its key was overwritten with a value that is no string", driver.ErrLost)
	}
	if value == redisscript.Readers {
		return fmt.Errorf("%w: readers have it now", driver.ErrLost)
	}
	if owner, foreign := redisscript.Owner(value); !foreign {
		return fmt.Errorf("%w: %q has it now", driver.ErrLost, owner)
	}
	return fmt.Errorf("%w: a foreign client has overwritten it with %q", driver.ErrLost, clip(value))
}

// clip shortens what somebody else wrote.
func clip(s string) string {
	const limit = 100
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
