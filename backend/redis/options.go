package redis

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/redisscript"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Prefix begins the key of every lock. Clients share locks only if they use the same prefix. Default: "lockport:". No braces.
	Prefix string
	// NoPrefix makes the name itself the key, to share locks with clients in other languages.
	NoPrefix bool
	// Replicas makes every grant and renewal wait (WAIT) until this many replicas acknowledge it. A grant with fewer
	// acknowledgements is released, and the error matches ErrUnavailable. Losing a lock in a fail-over becomes rare, not impossible.
	// Each batch of requests then needs its own pipeline. Default: 0, no waiting.
	Replicas int
	// WaitTimeout bounds the wait for Replicas. Default: 1 s. At most 4 s, and below the client's read timeout.
	WaitTimeout time.Duration
}

const (
	defaultWaitTimeout = time.Second
	maxWaitTimeout     = 4 * time.Second
)

// prepare validates o and fills in the defaults.
func (o *Options) prepare(client goredis.UniversalClient) (redisscript.Layout, error) {
	layout, err := redisscript.NewLayout(o.Prefix, o.NoPrefix)
	if err != nil {
		return layout, err
	}
	if o.Replicas < 0 {
		return layout, fmt.Errorf("the option Replicas is %d; it cannot be negative", o.Replicas)
	}
	if o.WaitTimeout = cmp.Or(o.WaitTimeout, defaultWaitTimeout); o.WaitTimeout < time.Millisecond || o.WaitTimeout > maxWaitTimeout {
		return layout, fmt.Errorf("the option WaitTimeout is %v; it must be from 1ms to %v", o.WaitTimeout, maxWaitTimeout)
	}
	if redisscript.IsNil(client) {
		return layout, errors.New("the client is nil")
	}
	read := 5 * time.Second
	switch c := client.(type) {
	case *goredis.Client:
		read = c.Options().ReadTimeout
	case *goredis.ClusterClient:
		read = c.Options().ReadTimeout
	case *goredis.Ring:
		return layout, fmt.Errorf("%w: a Ring moves a name to another server when one is down, so two clients could hold it; "+
			"use a single server, Sentinel or Cluster", errors.ErrUnsupported)
	}
	if o.Replicas > 0 && read > 0 && read <= o.WaitTimeout {
		return layout, fmt.Errorf("the option WaitTimeout %v must be below the client's read timeout %v", o.WaitTimeout, read)
	}
	return layout, nil
}
