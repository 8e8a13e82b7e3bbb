package exhibits

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

// statements are locks that state wrong Capabilities, hide interfaces, misbehave in optional interfaces, or leak.
var statements = []Exhibit{
	{"never-tells-of-removal", "RemovalNotice is stated, but Lost is never called",
		caught{"removal/forgotten": "Lost was not called", "removal/broken": "Lost was not called", "removal/overwritten": "Lost was not called"}, asking(untold)},
	{"tells-twice", "Lost is called twice",
		caught{"removal/broken": "called Lost 2 times"}, asking(func(req *driver.Request) {
			if lost := req.Lost; lost != nil {
				req.Lost = func(err error) { lost(err); lost(err) }
			}
		})},
	{"cries-wolf", "Lost is called although the claim is held",
		caught{"removal/no-false-alarm": "was told 1 times", "cost/held-locks-stay": "was lost on a healthy server"}, asking(func(req *driver.Request) {
			if lost := req.Lost; lost != nil {
				time.AfterFunc(req.TTL/2, func() { lost(driver.ErrLost) })
			}
		})},
	{"tells-after-the-next-grant", "no validity is stated, and the holder is told one TTL after the server granted the name to another client",
		caught{"silence/frozen": "the holder said Valid"}, func(l *lock) {
			l.grant = func(granted *lease) { granted.grant.Until = time.Time{} }
			l.request = func(req *driver.Request) {
				if lost := req.Lost; lost != nil {
					time.AfterFunc(2*req.TTL, func() { lost(driver.ErrLost) })
				}
			}
			l.state = func(c *driver.Capabilities) { c.Ends, c.RemovalNotice = driver.EndsSession, nil }
		}},
	{"hides-interfaces", "a wrapper without Unwrap hides the Waiter that its Capabilities state",
		caught{"capabilities/interfaces": "no driver.Waiter is found"}, func(l *lock) { l.as = plain{l} }},
	{"changes-its-mind", "Capabilities change between calls",
		caught{"capabilities/stated": "Capabilities returned"}, func(l *lock) {
			var calls atomic.Int64
			l.state = func(c *driver.Capabilities) { c.MinTTL = time.Duration(calls.Add(1)) }
		}},
	{"states-to-be-prompt", "Prompt is stated, but a claim returns late",
		caught{"capabilities/prompt": "returned later than"}, failing(func(err error) error {
			if errors.Is(err, driver.ErrUnknown) {
				time.Sleep(time.Second)
			}
			return err
		})},
	{"states-a-fixed-ttl", "FixedTTL is stated, but any TTL is accepted",
		caught{"capabilities/ttl": "was not ErrRefused"}, stating(func(c *driver.Capabilities) { c.FixedTTL = time.Second })},
	{"states-a-session", "EndsSession is stated, but claims have a TTL of their own",
		caught{"capabilities/stated": "FixedTTL"}, stating(func(c *driver.Capabilities) { c.Ends = driver.EndsSession })},
	{"states-a-smallest-ttl", "MinTTL is stated, but a smaller TTL is accepted",
		caught{"capabilities/ttl": "was not ErrRefused"}, stating(func(c *driver.Capabilities) { c.MinTTL = time.Second })},
	{"hides-its-tokens", "no tokens are stated, but there are some",
		caught{"contract/grant": "TokenNone"}, stating(func(c *driver.Capabilities) { c.Token = driver.TokenNone })},
	{"lists-by-pattern", "List treats its prefix as a pattern",
		caught{"optional/list": "List of prefix"}, func(l *lock) {
			l.list = func(ctx context.Context, prefix string) ([]driver.Status, error) {
				return l.sound.List(ctx, strings.TrimSuffix(prefix, "*"))
			}
		}},
	{"shows-no-waiter", "Inspect says that nobody waits in the server's queue",
		caught{"removal/broken": "shows no waiter"}, inspecting(func(st *driver.Status) { st.Waiters = 0 })},
	{"always-held-since-now", "Inspect says that the lock was granted just now",
		caught{"optional/inspect": "stays the time of the grant"}, inspecting(func(st *driver.Status) { st.Since = time.Now() })},
	{"looking-renews", "Inspect extends the claim",
		caught{"optional/inspect-does-not-renew": "ends with its TTL"}, func(l *lock) {
			l.grant = func(one *lease) { l.shared.Store(one.req.Name, one) }
			l.inspect = func(ctx context.Context, name string) (driver.Status, error) {
				if holder, ok := l.shared.Load(name); ok {
					// On a busy machine the claim may expire between calls. Then claim it again.
					if _, err := holder.(*lease).Renew(ctx); errors.Is(err, driver.ErrLost) {
						_, _ = l.sound.TryAcquire(ctx, holder.(*lease).req)
					}
				}
				return l.sound.Inspect(ctx, name)
			}
		}},
	{"checking-releases", "Check releases the last claim",
		caught{"optional/check": "another claim was granted"}, func(l *lock) {
			var last driver.Request
			l.request = func(req *driver.Request) { last = *req }
			l.check = func(ctx context.Context) ([]driver.Notice, error) {
				_ = l.sound.Abandon(ctx, last)
				return l.sound.Check(ctx)
			}
		}},
	{"checking-is-silent", "a notice of Check has no remedy",
		caught{"optional/check": "lacks its ID, text or remedy"}, func(l *lock) {
			l.check = func(context.Context) ([]driver.Notice, error) {
				return []driver.Notice{{ID: "trouble", Text: "Something is wrong."}}, nil
			}
		}},
	{"checking-outstays", "Check waits for the server after its context ends",
		caught{"cancellation/silent-server": "Check has not returned"}, func(l *lock) {
			l.check = func(ctx context.Context) ([]driver.Notice, error) {
				patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return l.sound.Check(patient)
			}
		}},
	{"leaks-goroutines", "every claim leaves a goroutine behind",
		caught{"exclusion/two-backends": "no goroutine may be left", "errors/released": "no goroutine may be left"}, asking(func(*driver.Request) { go time.Sleep(10 * time.Second) })},
	{"a-goroutine-for-each-lock", "each held lock keeps a goroutine",
		caught{"cost/held-locks": "320 need"}, func(l *lock) {
			open, hangUp := make(chan struct{}), l.hangUp
			l.grant = func(*lease) { go func() { <-open }() }
			l.hangUp = sync.OnceFunc(func() { close(open); hangUp() })
		}},
	{"leaks-keys", "every claim leaves a key at the server",
		caught{"exclusion/two-backends": "the server must keep nothing", "errors/released": "the server must keep nothing"}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			direct := memory.NewBackend(memory.Options{Server: l.sound.Server()})
			_, _ = direct.TryAcquire(ctx, driver.Request{Name: req.Name + ":queue", Owner: req.Owner, TTL: time.Hour})
			return l.sound.TryAcquire(ctx, req)
		})},
	{"a-connection-for-each-lock", "each held lock keeps a connection",
		caught{"cost/connections": "5 held locks needed"}, func(l *lock) { l.grant = func(*lease) { l.net.conns.Add(1) } }},
	{"leaks-connections", "Close leaves a connection open",
		caught{"cost/connections": "no connection may be left"}, func(l *lock) { l.hangUp = func() {} }},
}

// stating changes the Capabilities of a lock.
func stating(change func(*driver.Capabilities)) func(*lock) {
	return func(l *lock) { l.state = change }
}

// inspecting changes what Inspect returns.
func inspecting(change func(*driver.Status)) func(*lock) {
	return func(l *lock) {
		l.inspect = func(ctx context.Context, name string) (driver.Status, error) {
			st, err := l.sound.Inspect(ctx, name)
			change(&st)
			return st, err
		}
	}
}
