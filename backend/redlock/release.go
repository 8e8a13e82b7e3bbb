package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

func isRefused(err error) bool { return errors.Is(err, driver.ErrRefused) }

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return driver.Grant{Until: c.from, Contended: c.contended} }

// Entry is what Lock.As gives of a lock of Redlock: see As.
type Entry struct {
	Key, Value string // what each node that granted the lock has
}

// As sets target if it is an *Entry.
func (c *claim) As(target any) bool {
	e, ok := target.(*Entry)
	if ok {
		*e = Entry{Key: c.keys[0], Value: c.value}
	}
	return ok
}

// Release implements driver.Lease: one request to every node at once. It returns when a majority has freed the lock; the others do so in
// the background, or when the TTL has passed.
func (c *claim) Release(ctx context.Context) error {
	c.mu.Lock()
	if c.ended {
		defer c.mu.Unlock()
		return c.endedAs
	}
	c.begin(releasing)
	asked := c.toFree()
	c.look()
	c.mu.Unlock()
	c.free(asked)
	err := c.await(ctx, c.b.o.nodeTimeout(c.Req.TTL))
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.releasedAs(err)
}

// toFree picks the nodes that have not said yet that they have nothing of the claim. The mutex is held.
func (c *claim) toFree() []int {
	asked := make([]int, 0, len(c.seats))
	for i := range c.seats {
		if s := &c.seats[i]; s.freed == freedNot {
			s.asking, s.tries = true, 0
			asked = append(asked, i)
		}
	}
	return asked
}

// free releases the lock on the nodes asked.
func (c *claim) free(asked []int) {
	argv := []string{c.value, ""}
	for _, i := range asked {
		c.mu.Lock()
		s := &c.seats[i]
		loose, terms := s.loose, redisscript.Terms{}
		if s.flying > 0 {
			terms.Generation = s.gen // behind it, on the same connection
		}
		c.mu.Unlock()
		if loose {
			c.abandonAt(i)
		} else {
			c.b.nodes[i].line.Call(redisscript.QuorumRelease, c.keys[:], argv, terms, c, callRelease.number(i, 0))
		}
	}
}

// released notes what node i said to a release. The mutex is held.
func (c *claim) released(i int, r redisscript.Reply) {
	s := &c.seats[i]
	if !s.asking {
		return
	}
	s.asking = false
	switch {
	case r.Err != nil:
		s.err = r.Err
	case r.Value == int64(1):
		s.freed = freedHere
	case s.maybe:
		s.freed = freedMaybe
	default:
		s.freed = freedBefore
	}
}

// releasedAs makes the outcome of a release of what the nodes said. The mutex is held. ended is the error of the context, if that ended.
func (c *claim) releasedAs(ended error) error {
	q := c.b.quorum
	switch {
	case c.ended:
		return c.endedAs
	case c.countEnded() < q:
		return c.notFreed(ended)
	case c.gaveUp, c.countFreed(freedBefore) >= q, c.countFreed(freedHere) < q && !time.Now().Before(c.until):
		c.endedAs = lost(c)
	}
	c.ended = true
	c.b.claims.Leave(c)
	return c.endedAs
}

// notFreed is the error of a release, or of Abandon, that too few nodes have confirmed. The mutex is held.
func (c *claim) notFreed(ended error) error {
	class := driver.ErrUnavailable
	var why []failure
	for i := range c.seats {
		switch s := &c.seats[i]; {
		case s.freed != freedNot:
		case s.asking || s.maybe:
			class = driver.ErrUnknown
			fallthrough
		default:
			if s.asking || s.err == nil {
				why = append(why, c.b.nodes[i].slow())
			} else {
				why = append(why, c.b.nodes[i].failed(s.err))
			}
		}
	}
	if ended != nil {
		return fmt.Errorf("%w: %s: %w", driver.ErrUnknown, c.b.missing(why), ended)
	}
	return fmt.Errorf("%w: %s", class, c.b.missing(why))
}

// Abandon implements driver.Backend. It returns nil when a majority of the nodes has nothing of the claim and, where it may still be on its way,
// remembers that for a minute: then no majority can grant it any more. The others do the same in the background; on one that
// cannot be reached its key ends with its TTL.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	m, unresolved := b.claims.Unresolved(req)
	c := m.(*claim)
	c.mu.Lock()
	c.gaveUp = true
	known := c.round > 0
	c.begin(abandoning)
	asked := c.toFree()
	for _, i := range asked {
		s := &c.seats[i]
		s.loose = s.loose || s.flying > 0 || unresolved && !known
	}
	c.look()
	c.mu.Unlock()
	for _, i := range asked {
		c.abandonAt(i)
	}
	err := c.await(ctx, b.o.nodeTimeout(max(c.Req.TTL, minTTL)))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.countEnded() < b.quorum {
		return c.notFreed(err)
	}
	b.claims.Leave(c)
	return nil
}

// abandonAt gives up what node i has of the claim, and has it refuse what may still arrive.
func (c *claim) abandonAt(i int) {
	ms := "0"
	c.mu.Lock()
	if c.seats[i].loose {
		ms = strconv.FormatInt(late.Milliseconds(), 10)
	}
	c.mu.Unlock()
	c.b.nodes[i].line.Call(redisscript.Abandon, c.keys[:], []string{c.value, ms}, redisscript.Terms{}, c, callAbandon.number(i, 0))
}

// Broken implements redisclaims.Member: a majority of the nodes says that somebody has broken the claim by force.
func (c *claim) Broken() {
	err := fmt.Errorf("%w: it was broken by force", driver.ErrLost)
	if c.end(err) && c.Req.Lost != nil {
		c.Req.Lost(err)
	}
}

// end ends a claim that is lost, unless it has ended, and frees in the background what nodes still have of it.
func (c *claim) end(err error) (first bool) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return false
	}
	c.ended, c.endedAs = true, err
	c.b.claims.Leave(c)
	asked := c.toFree()
	c.mu.Unlock()
	c.free(asked)
	return true
}

// lost says that a majority is gone.
func lost(c *claim) error {
	return fmt.Errorf("%w: fewer than %d of %d nodes have its key: it expired, or was deleted, overwritten or evicted, or nodes lost their data",
		driver.ErrLost, c.b.quorum, len(c.b.nodes))
}
