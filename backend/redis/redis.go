package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// New makes a lockport client on client: a *redis.Client (also for Sentinel) or a *redis.ClusterClient. It does no I/O. Closing the
// result does not close client.
func New(client goredis.UniversalClient, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(client, o)
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for one call of lockport.New; see New. Of several clients on one backend, all but the first poll.
func NewBackend(client goredis.UniversalClient, o Options) (*Backend, error) {
	layout, err := o.prepare(client)
	if err != nil {
		return nil, err
	}
	b := &Backend{pipe: redisscript.NewPipe(client, o.Replicas, o.WaitTimeout), layout: layout, o: o}
	b.claims = redisclaims.New(redisclaims.Options[*claim]{
		Pipes: []*redisscript.Pipe{b.pipe}, Quorum: 1, New: b.newClaim, MinTTL: capabilities.MinTTL,
	})
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	pipe     *redisscript.Pipe
	layout   redisscript.Layout
	o        Options
	claims   *redisclaims.Registry[*claim]
	requests atomic.Int64 // numbers the claim requests
}

var (
	_ driver.Backend      = (*Backend)(nil)
	_ driver.Notifier     = (*Backend)(nil)
	_ driver.BatchRenewer = (*Backend)(nil)
	_ driver.Requeuer     = (*Backend)(nil)
	_ driver.Attacher     = (*Backend)(nil)
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
	Prompt:    true, // a direct claim waits on its socket for 80 ms at most; other requests run on goroutines of the pipe
	Failover:  driver.FailoverUnsafe,
	Queue:     true,
	Contended: true,
	Shared:    true,
	Permits:   true,
	Detach:    true,
	// The next renewal, after a third of the TTL at the latest, detects it.
	RemovalNotice: func(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend. It also closes a client that was opened from a URL.
func (b *Backend) Close() error {
	b.claims.Close()
	return b.pipe.Close()
}

// pollBehindWriter is how often a reader polls that waits behind a writer while readers hold the name. A poll calls the writer, and the next one
// passes it over if it has died.
const pollBehindWriter = 3 * time.Second

// TryAcquire implements driver.Backend, usually in one request.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.claims.Enter(req)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	lease, err := b.outcome(c, sent, c.run(ctx, redisscript.Acquire, c.TTL(), req.Queue, b.requests.Add(1)))
	b.claims.Answered(c, req.Queue, err)
	if held, ok := err.(*driver.HeldError); ok && held.Holder.Shared && req.Queue && !c.beside() { // tell the readers that a writer waits
		_ = b.pipe.Run(ctx, redisscript.Contend.Call(b.besideKeys(req.Name, 0), req.Owner, 0)) // advice: c polls
	}
	return lease, err
}

// outcome converts the script's reply to a claim.
func (b *Backend) outcome(c *claim, sent time.Time, r redisscript.Reply) (driver.Lease, error) {
	got, err := r.Claimed()
	if err != nil {
		return nil, err
	}
	switch got.Status {
	case redisscript.Granted:
		switch {
		case got.Number <= 0, got.Number > driver.MaxToken:
			return nil, r.Unexpected()
		case r.Unacked != nil:
			return nil, r.Unacked
		}
		c.grant = driver.Grant{Token: uint64(got.Number), Until: sent.Add(c.Req.TTL), Contended: got.Flag}
		return c, nil
	case redisscript.Held:
		return nil, b.held(c, got)
	case redisscript.Abandoned:
		return nil, fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)
	}
	// OtherPermits is the only other status.
	return nil, driver.OtherPermits(int(got.Number), c.Req.Permits)
}

// held is the error of a claim that found the name held.
func (b *Backend) held(c *claim, got redisscript.Claimed) *driver.HeldError {
	h := &driver.HeldError{Poll: redisclaims.PollUnheard}
	if got.Number >= 0 { // otherwise it never expires
		h.ExpiresIn = redisscript.Duration(max(got.Number, 1)) // 0 means within this millisecond
	}
	switch {
	case got.Value == redisscript.Readers:
		h.Holder.Shared = true
	case got.Value != "":
		h.Holder.Owner, h.Holder.Foreign = redisscript.Owner(got.Value)
	case got.Flag:
		h.Holder.Owner, h.Holder.Foreign = redisscript.NotAString, true
	}
	switch {
	case got.Flag:
		h.Poll = redisclaims.PollForeign
	case b.claims.Heard(c.Req.Owner):
		h.Poll = redisclaims.PollHeard
		if c.Req.Shared && h.Holder.Shared {
			h.Poll = pollBehindWriter
		}
	}
	return h
}

// Abandon implements driver.Backend. If the claim may still arrive, the server refuses it for a minute.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	c, unresolved, void := b.claims.Find(req)
	ms := int64(0)
	if unresolved {
		ms = redisclaims.TombstoneTTL.Milliseconds()
	}
	if !void {
		if r := c.run(ctx, redisscript.Abandon, ms); r.Err != nil {
			return r.Err
		}
	}
	b.claims.Leave(c)
	return nil
}

// Notify implements driver.Notifier.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	return b.claims.Notify(req, wake)
}

// Requeue implements driver.Requeuer.
func (b *Backend) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (lease driver.Lease, released, err error) {
	from := old.(*claim)
	c, err := b.claims.Enter(req)
	if err != nil {
		return nil, err, err
	}
	sent := time.Now()
	r := b.pipe.Run(ctx, redisscript.Requeue.Call(b.keysOf(req.Name), from.value(), c.value(), c.TTL()))
	reply, _ := r.Value.([]any)
	if len(reply) != 2 {
		reply, r.Err = make([]any, 2), cmp.Or(r.Err, r.Unexpected())
	}
	released = from.releaseOutcome(redisscript.Reply{Value: reply[0], Err: r.Err})
	lease, err = b.outcome(c, sent, redisscript.Reply{Value: reply[1], Err: r.Err, Unacked: r.Unacked})
	b.claims.Answered(c, true, err)
	return lease, released, err
}

// Detach implements driver.Attacher.
func (b *Backend) Detach(ctx context.Context, lease driver.Lease) error {
	_, err := driver.Renew(ctx, b, lease)
	if err == nil {
		b.claims.Leave(lease.(*claim))
	}
	return err
}

// Attach implements driver.Attacher. One request compares the lock's value and sets the new one.
func (b *Backend) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (lease driver.Lease, err error) {
	c, err := b.claims.Enter(req)
	if errors.Is(err, driver.ErrHeld) {
		err = lost(redisscript.Value(req.Owner)) // this owner has it already
	}
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	r := c.run(ctx, redisscript.Attach, c.TTL(), redisscript.Value(owner), token)
	if reply, _ := r.Value.([]any); r.Err == nil && len(reply) == 2 {
		b.claims.Leave(c)
		return nil, lost(reply[1])
	}
	lease, err = b.outcome(c, sent, r)
	b.claims.Answered(c, false, err)
	return lease, err
}
