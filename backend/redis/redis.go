package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// New makes a client of lockport on client: a *redis.Client, also one for Sentinel, or a *redis.ClusterClient. It does no I/O, and
// closing it does not close client.
func New(client goredis.UniversalClient, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(client, o)
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(client goredis.UniversalClient, o Options) (*Backend, error) {
	layout, err := o.prepare(client)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		client: client,
		server: redisscript.NewServer(client, o.Replicas, o.WaitTimeout),
		layout: layout,
		o:      o,
	}
	b.claims = redisclaims.New(redisclaims.Options{
		Servers: []goredis.UniversalClient{client}, Quorum: 1, New: b.newClaim, Contended: b.askWhetherContended,
	})
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	client    goredis.UniversalClient
	ownClient bool // made by a URL: Close closes it
	server    *redisscript.Server
	layout    redisscript.Layout
	o         Options
	claims    *redisclaims.Registry
}

var (
	_ driver.Backend      = (*Backend)(nil)
	_ driver.Notifier     = (*Backend)(nil)
	_ driver.BatchRenewer = (*Backend)(nil)
	_ driver.Requeuer     = (*Backend)(nil)
	_ driver.Inspector    = (*Backend)(nil)
	_ driver.Breaker      = (*Backend)(nil)
	_ driver.Checker      = (*Backend)(nil)
)

var capabilities = driver.Capabilities{
	Backend:   "redis",
	Ends:      driver.EndsTTL,
	MinTTL:    time.Millisecond,
	TTLGrain:  time.Millisecond,
	Token:     driver.TokenFailover,
	Fair:      driver.FairAdvice,
	Wake:      driver.WakeNotify,
	Prompt:    true,
	Failover:  driver.FailoverUnsafe,
	Queue:     true,
	Contended: true,
	// The renewal comes at a third of the TTL, and finds out.
	RemovalNotice: func(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend. It closes the client too if that was made of a URL.
func (b *Backend) Close() error {
	b.claims.Close()
	b.server.Close()
	if b.ownClient {
		return b.client.Close()
	}
	return nil
}

// When a waiter looks again although nobody told it to.
const (
	pollHeard   = 5 * time.Second        // the safety net under notification
	pollUnheard = 250 * time.Millisecond // before the notification is there, or where it is not permitted
	pollForeign = 100 * time.Millisecond // behind a foreign client, which tells nobody that it releases
)

// late is for how long a claim that was abandoned while it was on its way is remembered at the server, in case it arrives.
const late = time.Minute

// TryAcquire implements driver.Backend, in one request.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.enter(req)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	r := b.server.Run(ctx, c.slot, redisscript.Acquire, c.args(redisscript.Acquire, (*valueOf)(c), (*ttlOf)(c), queueFlag(req.Queue)), b.o.Replicas > 0)
	lease, err := b.claimed(ctx, c, sent, r.Value, r.Acked, r.Err)
	b.claims.Answered(c, req.Queue, err)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// claimed makes the outcome of a claim of the script's reply.
func (b *Backend) claimed(ctx context.Context, c *claim, sent time.Time, value any, acked int, err error) (*claim, error) {
	if err != nil {
		return nil, err
	}
	status, token, contended := int64(granted), int64(0), int64(0)
	switch v := value.(type) {
	case int64:
		token = v
	case []any:
		if !scan(v, &status, &token, &contended) && status != abandoned {
			status = 0
			token = -1
		}
	}
	switch {
	case status == granted && token > 0 && token <= driver.MaxToken:
		if acked < b.o.Replicas {
			return nil, b.giveBack(ctx, c, acked)
		}
		c.grant = driver.Grant{Token: uint64(token), Until: sent.Add(c.Req.TTL), Contended: contended > 0}
		return c, nil
	case status == held:
		ms, foreign := token, contended == 1
		if ms == 0 {
			ms = 1 // within this millisecond, and not unknown
		}
		h := &driver.HeldError{ExpiresIn: max(time.Duration(ms), 0) * time.Millisecond, Poll: pollUnheard}
		switch {
		case foreign:
			h.Poll = pollForeign
		case b.claims.Heard(c.Req.Owner):
			h.Poll = pollHeard
		}
		return nil, h
	case status == abandoned:
		return nil, fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)
	}
	return nil, fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, value)
}

// What claim.lua replies first.
const (
	held      = 0
	granted   = 1
	abandoned = 2
)

// scan reads numbers of a reply. false: there are not enough.
func scan(reply []any, to ...*int64) bool {
	for i, p := range to {
		if i >= len(reply) {
			return false
		}
		n, ok := reply[i].(int64)
		if !ok {
			return false
		}
		*p = n
	}
	return true
}

// giveBack releases a grant that too few replicas acknowledged.
func (b *Backend) giveBack(ctx context.Context, c *claim, acked int) error {
	what := fmt.Sprintf("only %d of %d replicas acknowledged the lock within %v", acked, b.o.Replicas, b.o.WaitTimeout)
	if r := b.server.Run(ctx, c.slot, redisscript.Release, c.releaseArgs(), false); r.Err != nil {
		return fmt.Errorf("%w: %s, and it could not be given back: %v", driver.ErrUnknown, what, r.Err)
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, what)
}

// Abandon implements driver.Backend. A claim that may still be on its way is remembered at the server for a minute, so that it is
// not granted when it arrives.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	m, unresolved := b.claims.Unresolved(req)
	c := m.(*claim)
	ms := int64(0)
	if unresolved {
		ms = late.Milliseconds()
	}
	r := b.server.Run(ctx, c.slot, redisscript.Abandon, c.args(redisscript.Abandon, (*valueOf)(c), ms), false)
	if r.Err != nil {
		return r.Err
	}
	b.claims.Leave(c)
	return nil
}

// Notify implements driver.Notifier.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	return b.claims.Notify(req, wake)
}

// askWhetherContended tells those of the members for whose name somebody waits.
func (b *Backend) askWhetherContended(ctx context.Context, _ int, members []redisclaims.Member) {
	holders := make([]*claim, len(members))
	for i, m := range members {
		holders[i] = m.(*claim)
	}
	ask := func(c *claim) (any, []any) { return (*queueOf)(c), nil }
	b.forEach(ctx, holders, redisscript.Waiting, ask, false, func(i int, reply any, _ int, err error) {
		if waiting, ok := reply.(int64); err == nil && ok && waiting > 0 {
			holders[i].Req.Contended()
		}
	})
}

// Requeue implements driver.Requeuer.
func (b *Backend) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (lease driver.Lease, released, err error) {
	from, ok := old.(*claim)
	if !ok || from.b != b {
		err = fmt.Errorf("%w: the lease is not of this backend", driver.ErrRefused)
		return nil, err, err
	}
	c, err := b.enter(req)
	if err != nil {
		return nil, err, err
	}
	sent := time.Now()
	args := c.args(redisscript.Requeue, (*valueOf)(from), (*valueOf)(c), (*ttlOf)(c))
	r := b.server.Run(ctx, c.slot, redisscript.Requeue, args, b.o.Replicas > 0)
	reply, _ := r.Value.([]any)
	if r.Err == nil && len(reply) != 2 {
		r.Err = fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
	}
	if r.Err != nil {
		released, err = from.released(nil, r.Err), r.Err
	} else {
		released = from.released(reply[0], nil)
		var got *claim
		if got, err = b.claimed(ctx, c, sent, reply[1], r.Acked, nil); err == nil {
			lease = got
		}
	}
	b.claims.Answered(c, true, err)
	return lease, released, err
}
