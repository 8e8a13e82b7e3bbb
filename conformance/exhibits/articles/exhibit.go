package articles

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Exhibit is a lock on Redis as an article has it.
type Exhibit struct {
	// Name is what it is called.
	Name string
	// Hazard is the letter of what is broken in it, "H3"; empty if nothing is, or what the list of hazards does not have.
	Hazard string
	// Article says where it is shown, or warned of: "003". Of a bug of somebody's Library it is the address of its report.
	Article, Library string
	// Is says in a sentence what is broken, or how it is sound.
	Is string
	// CaughtBy are the cases of the suite that must fail, by their IDs. Others may fail too. Nothing for a sound lock.
	CaughtBy []string
	// Sees is what the reason of each failure must contain: of all, or of each of CaughtBy in its place.
	Sees []string
	// Nodes is how many servers it asks, 1 or 5.
	Nodes int

	client func(*goredis.Options)     // changes how it connects; nil: nothing
	one    func(*lock) driver.Backend // makes it of the sound lock in one Redis
	many   func(*quorum)              // changes the sound lock in several
}

// All are the broken ones, in the order of their hazards.
func All() []Exhibit {
	all := slices.Concat(acquisitions, releases, owners, beliefs, quorums, spins, outages)
	for i := range all {
		all[i].Nodes = all[i].nodes()
	}
	return all
}

// Sound are the locks of which the others are made, and those that an article got right.
func Sound() []Exhibit {
	all := []Exhibit{
		{
			Name: "set-nx-px", Article: "000, 002, 003", one: unchanged,
			Is: "value and expiry in one step; renewal, release and Abandon compare the value in the same step",
		},
		{
			Name: "watch-multi", Article: "001", one: watchMulti,
			Is: "the same, with a release that is WATCH, GET, MULTI, DEL, EXEC: the transaction fails if the lock has changed since WATCH",
		},
		{
			Name: "redlock", Article: "002, 004", many: func(*quorum) {},
			Is: "a majority of five servers, each of which has a sixteenth of the TTL to answer; the validity counts from the first request",
		},
	}
	for i := range all {
		all[i].Nodes = all[i].nodes()
	}
	return all
}

func (x Exhibit) nodes() int {
	if x.many != nil {
		return 5
	}
	return 1
}

func unchanged(l *lock) driver.Backend { return l }

// Open opens x on Redis. rawURL is as of go-redis, with as many addresses as x has Nodes, commas between them:
// "redis://localhost:6379,localhost:6380". It does no I/O.
func (x Exhibit) Open(_ context.Context, rawURL string) (driver.Backend, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	hosts := strings.Split(u.Host, ",")
	if len(hosts) != x.nodes() {
		return nil, fmt.Errorf("the lock %s asks %d servers, and the URL names %d", x.Name, x.nodes(), len(hosts))
	}
	locks := make([]*lock, len(hosts))
	for i, host := range hosts {
		u.Host = host
		o, err := goredis.ParseURL(u.String())
		if err != nil {
			return nil, err
		}
		// A request that is sent again finds what it did itself the first time.
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		if x.client != nil {
			x.client(o)
		}
		locks[i] = newLock(goredis.NewClient(o), x.Name)
	}
	if x.many == nil {
		return x.one(locks[0]), nil
	}
	q := &quorum{nodes: locks, patience: func(ttl time.Duration) time.Duration { return ttl / 16 }, valid: fromTheFirst}
	x.many(q)
	return q, nil
}
