package redlock

import (
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/redisscript"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Prefix begins every key on every node. Clients share locks only if they use the same prefix. Default: "lockport:". No braces.
	Prefix string
	// NoPrefix makes the name itself the key, to share locks with clients in other languages.
	NoPrefix bool
	// NodeTimeout is how long to wait for one node while the others leave the outcome open. At least 1 ms. A TTL must be at least
	// twice as long. Default: half of the TTL, at most 1 s.
	NodeTimeout time.Duration
}

const (
	minNodes = 3
	maxNodes = 31 // beyond any sensible number
	// minTTL is the smallest TTL of which drift and margin leave something.
	minTTL = 20 * time.Millisecond
	// maxNodeTimeout bounds the default of NodeTimeout, and requests such as inspections.
	maxNodeTimeout = time.Second
	// timeoutsPerTTL is how many NodeTimeouts fit into the smallest TTL: a claim that waited for a node must still be of use.
	timeoutsPerTTL = 2
)

// prepare validates o and the nodes, as far as possible without asking them.
func (o *Options) prepare(nodes []goredis.UniversalClient) (redisscript.Layout, error) {
	layout, err := redisscript.NewLayout(o.Prefix, o.NoPrefix)
	if err != nil {
		return layout, err
	}
	if o.NodeTimeout != 0 && o.NodeTimeout < time.Millisecond {
		return layout, fmt.Errorf("the option NodeTimeout is %v; it must be at least 1ms", o.NodeTimeout)
	}
	switch n := len(nodes); {
	case n < minNodes:
		return layout, fmt.Errorf("at least %d independent nodes are needed, not %d: with one server use redis://", minNodes, n)
	case n%2 == 0:
		return layout, fmt.Errorf("there are %d nodes; their number must be odd: %d nodes tolerate no more failures than %d", n, n, n-1)
	case n > maxNodes:
		return layout, fmt.Errorf("there are %d nodes; at most %d are allowed", n, maxNodes)
	}
	seen := make(map[string]bool)
	for i, client := range nodes {
		if redisscript.IsNil(client) {
			return layout, fmt.Errorf("the client of node %d is nil", i+1)
		}
		addr := addrOf(client, i)
		_, cluster := client.(*goredis.ClusterClient)
		_, ring := client.(*goredis.Ring)
		switch {
		case cluster, ring, addr == "FailoverClient": // found by Sentinel
			return layout, fmt.Errorf("%w: the client of node %d is for several servers; a Redlock node must be one server that no replica ever replaces: "+
				"use its own address", errors.ErrUnsupported, i+1)
		case seen[addr]:
			return layout, fmt.Errorf("the node %s is given twice: it would have two votes", addr)
		}
		seen[addr] = true
	}
	return layout, nil
}

// optionsOf returns client's options, or nil if it does not reveal them.
func optionsOf(client goredis.UniversalClient) *goredis.Options {
	if c, ok := client.(interface{ Options() *goredis.Options }); ok {
		return c.Options()
	}
	return nil
}

// addrOf is the address of node i, as shown in errors.
func addrOf(client goredis.UniversalClient, i int) string {
	if o := optionsOf(client); o != nil {
		return o.Addr
	}
	return fmt.Sprint("number ", i+1)
}

// drift is how much faster than ours a node's clock may run during a TTL, plus 2 ms for the precision of its expiries; see
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
