package redlock

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/redisscript"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Prefix begins the key of every lock, on every node. Clients meet if theirs is the same. Default: "lockport:". It has no braces.
	Prefix string
	// NoPrefix makes the key the name itself, to meet clients of other languages at keys that they have chosen.
	NoPrefix bool
	// NodeTimeout is how long one node is waited for where the others have not decided yet. At least 1 ms. A TTL must be at least twice as
	// long. Default: half of the TTL, at most 1 s.
	NodeTimeout time.Duration
}

const (
	minNodes = 3
	maxNodes = 31 // far above what makes sense
	// minTTL is the smallest TTL: the drift and the margin leave something of it.
	minTTL = 20 * time.Millisecond
	// maxNodeTimeout bounds the default, and is how long a node has to answer an inspection.
	maxNodeTimeout = time.Second
	// timeoutsPerTTL is how much of the TTL NodeTimeout leaves: a claim that had to wait for a node must still be of use.
	timeoutsPerTTL = 2
)

// prepare checks o and the nodes.
func (o *Options) prepare(nodes []goredis.UniversalClient) (redisscript.Layout, error) {
	prefix, err := lockurl.Prefix(o.Prefix, o.NoPrefix, redisscript.DefaultPrefix)
	layout := redisscript.Layout{Prefix: prefix}
	if err != nil {
		return layout, err
	}
	if err := layout.Check(); err != nil {
		return layout, err
	}
	if o.NodeTimeout != 0 && o.NodeTimeout < time.Millisecond {
		return layout, fmt.Errorf("the option NodeTimeout is %v; it must be at least 1ms", o.NodeTimeout)
	}
	return layout, checkNodes(nodes)
}

// checkNodes holds the rules for the nodes that can be held without asking them.
func checkNodes(nodes []goredis.UniversalClient) error {
	switch n := len(nodes); {
	case n < minNodes:
		return fmt.Errorf("there are %d nodes; Redlock needs at least %d, independent of each other: "+
			"with one server use redis://", n, minNodes)
	case n%2 == 0:
		return fmt.Errorf("there are %d nodes; their number must be odd: the last one makes no failure more bearable than %d do", n, n-1)
	case n > maxNodes:
		return fmt.Errorf("there are %d nodes; at most %d are allowed", n, maxNodes)
	}
	seen := make(map[string]bool)
	for i, client := range nodes {
		if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("the client of node %d is nil", i+1)
		}
		var why string
		switch client.(type) {
		case *goredis.ClusterClient:
			why = "is a Redis Cluster"
		case *goredis.Ring:
			why = "is a ring of servers"
		}
		addr := addrOf(client, i)
		if addr == "FailoverClient" {
			why = "is found by Sentinel"
		}
		switch {
		case why != "":
			return fmt.Errorf("%w: node %d %s; a node of Redlock is one server that is never replaced by its replica: "+
				"give its own address", errors.ErrUnsupported, i+1, why)
		case seen[addr]:
			return fmt.Errorf("the node %s is given twice: it would have two votes", addr)
		}
		seen[addr] = true
	}
	return nil
}

// optionsOf are the options of client; nil: it does not tell them.
func optionsOf(client goredis.UniversalClient) *goredis.Options {
	if c, ok := client.(interface{ Options() *goredis.Options }); ok {
		return c.Options()
	}
	return nil
}

// addrOf is the address of the node with index i, as errors name it.
func addrOf(client goredis.UniversalClient, i int) string {
	if o := optionsOf(client); o != nil {
		return o.Addr
	}
	return fmt.Sprint("number ", i+1)
}

// nodeTimeout is how long a node is waited for with a claim of this TTL.
func (o *Options) nodeTimeout(ttl time.Duration) time.Duration {
	if o.NodeTimeout > 0 {
		return o.NodeTimeout
	}
	return min(ttl/timeoutsPerTTL, maxNodeTimeout)
}

// minTTL is the smallest TTL that o allows.
func (o *Options) minTTL() time.Duration { return max(minTTL, timeoutsPerTTL*o.NodeTimeout) }

// drift is what the clocks of nodes may run faster than ours during a TTL, and 2 ms for the grain of their expiry, by
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
