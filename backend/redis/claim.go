package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// claim is what this backend knows of one owner id: a claim that is being made or waits, and then the lease.
type claim struct {
	redisclaims.Claim
	b    *Backend
	slot string // the lock's key, by which a cluster finds the node; "" where there is one

	// The lease.
	grant      driver.Grant
	until      atomic.Int64 // the latest validity, after grant.Until, in ns
	mu         sync.Mutex   // guards what follows
	endedAs    error        // what Release returns once it has ended
	ended      bool
	mayBeFreed bool // a release was sent whose outcome is not known
}

// enter registers the claim of req, which is about to be asked for.
func (b *Backend) enter(req driver.Request) (*claim, error) {
	if req.TTL <= 0 || req.TTL > maxTTL {
		return nil, fmt.Errorf("%w: TTL %v is not from 1ms to %v", driver.ErrRefused, req.TTL, maxTTL)
	}
	return b.claims.Enter(req).(*claim), nil
}

// maxTTL is far above what makes sense, and far below what overflows.
const maxTTL = math.MaxInt64 / 4

func (b *Backend) newClaim(req driver.Request) redisclaims.Member {
	c := &claim{b: b}
	c.Req = req
	if b.server.Cluster() {
		c.slot = b.layout.Key(req.Name)
	}
	return c
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Entry is what Lock.As gives of a lock on Redis: see As.
type Entry struct {
	Key, Value string // what a transaction must find (WATCH, GET) to be sure that the lock is still held
}

// As sets target if it is an *Entry.
func (c *claim) As(target any) bool {
	e, ok := target.(*Entry)
	if ok {
		*e = Entry{Key: c.b.layout.Key(c.Req.Name), Value: redisscript.Value(c.Req.Owner)}
	}
	return ok
}

// Release implements driver.Lease, in one request.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	if c.ended {
		defer c.mu.Unlock()
		return c.endedAs
	}
	c.mu.Unlock()
	r := c.b.server.Run(ctx, c.slot, redisscript.Release, c.releaseArgs(), false)
	return c.released(r.Value, r.Err)
}

// released makes the outcome of a release of a script's reply.
func (c *claim) released(reply any, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return c.endedAs
	}
	if err != nil {
		// That the request did not arrive is certain of ErrUnavailable only: an error reply may come from the middle of the script.
		if !errors.Is(err, driver.ErrUnavailable) {
			c.mayBeFreed = true
		}
		return err
	}
	c.ended = true
	// An earlier attempt may have freed it: before the validity ends nobody else can have.
	if reply != int64(1) && !(c.mayBeFreed && time.Now().Before(c.validUntil())) {
		c.endedAs = lost(reply)
	}
	c.b.claims.Leave(c)
	return c.endedAs
}

// Broken ends the claim, which somebody has broken by force, and tells its holder.
func (c *claim) Broken() {
	err := fmt.Errorf("%w: it was broken by force", driver.ErrLost)
	c.mu.Lock()
	first := !c.ended
	if first {
		c.ended, c.endedAs = true, err
		c.b.claims.Leave(c)
	}
	c.mu.Unlock()
	if first && c.Req.Lost != nil {
		c.Req.Lost(err)
	}
}

// validUntil is the latest validity that a request confirmed.
func (c *claim) validUntil() time.Time { return c.grant.Until.Add(time.Duration(c.until.Load())) }

// extend notes that the claim is valid until t, and returns the latest validity.
func (c *claim) extend(t time.Time) time.Time {
	for by := int64(t.Sub(c.grant.Until)); ; {
		old := c.until.Load()
		if old >= by || c.until.CompareAndSwap(old, by) {
			return c.validUntil()
		}
	}
}

// lost says who has the lock instead, by what a script replied.
func lost(reply any) error {
	value, ok := reply.(string)
	switch {
	case !ok:
		return fmt.Errorf("%w: its key is gone from Redis: it expired, or was deleted or evicted", driver.ErrLost)
	case value == "":
		return fmt.Errorf("%w: its key was overwritten with a value that is no string", driver.ErrLost)
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
