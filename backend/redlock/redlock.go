package redlock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// New makes a lockport client on nodes: an odd number, at least 3, of independent Redis servers. C is *redis.Client, or
// redis.UniversalClient, whose values must be such clients or wrap them. New does no I/O. Closing the result does not close the nodes' clients.
func New[C goredis.UniversalClient](nodes []C, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(nodes, o)
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for one call of lockport.New; see New. Of several clients on one backend, all but the first poll.
func NewBackend[C goredis.UniversalClient](nodes []C, o Options) (*Backend, error) {
	clients := make([]goredis.UniversalClient, len(nodes))
	for i, client := range nodes {
		clients[i] = client
	}
	layout, err := o.prepare(clients)
	if err != nil {
		return nil, err
	}
	b := &Backend{layout: layout, o: o, quorum: len(nodes)/2 + 1, caps: capabilities}
	b.caps.MinTTL = max(minTTL, timeoutsPerTTL*o.NodeTimeout)
	pipes := make([]*redisscript.Pipe, len(clients))
	for i, client := range clients {
		n := &node{addr: addrOf(client, i), pipe: redisscript.NewPipe(client, 0, 0), queues: make(map[string][]func())}
		b.nodes, pipes[i] = append(b.nodes, n), n.pipe
	}
	b.claims = redisclaims.New(redisclaims.Options[*claim]{Pipes: pipes, Quorum: b.quorum, New: b.newClaim, MinTTL: b.caps.MinTTL})
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	nodes  []*node
	quorum int
	layout redisscript.Layout
	o      Options
	caps   driver.Capabilities
	claims *redisclaims.Registry[*claim]
}

var (
	_ driver.Backend      = (*Backend)(nil)
	_ driver.Notifier     = (*Backend)(nil)
	_ driver.BatchRenewer = (*Backend)(nil)
	_ driver.Inspector    = (*Backend)(nil)
	_ driver.Breaker      = (*Backend)(nil)
	_ driver.Checker      = (*Backend)(nil)
)

var capabilities = driver.Capabilities{
	Backend:   "redlock",
	Ends:      driver.EndsTTL,
	MinTTL:    minTTL,
	TTLGrain:  time.Millisecond,
	Token:     driver.TokenNone,
	Fair:      driver.FairAdvice,
	Wake:      driver.WakeNotify,
	Prompt:    true,
	Failover:  driver.FailoverSafe,
	Queue:     true,
	Contended: true,
	// The next renewal, after a third of the TTL at the latest, detects it.
	RemovalNotice: func(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return b.caps }

// Notify implements driver.Notifier.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	return b.claims.Notify(req, wake)
}

// Close implements driver.Backend. It gives releases that still run in the background a second to finish. It also closes clients that were
// opened from a URL.
func (b *Backend) Close() error {
	b.claims.Close()
	ctx, cancel := context.WithTimeout(context.Background(), maxNodeTimeout)
	defer cancel()
	for _, n := range b.nodes {
		n.settle(ctx)
	}
	return cmp.Or(b.each(func(_ int, n *node) error { return n.pipe.Close() })...)
}

// TryAcquire implements driver.Backend: one request to every node at once. If too few grant it, another request undoes it.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	c, err := b.claims.Enter(req)
	if err != nil {
		return nil, err
	}
	err = c.acquire(ctx, req.Queue)
	b.claims.Answered(c, req.Queue, err)
	if err != nil {
		return nil, err
	}
	return c, nil
}
