package exhibits

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// statements are locks that state wrong Capabilities, hide interfaces, misbehave in optional interfaces, or leak.
var statements = []Exhibit{
	{"never-tells-of-removal", "RemovalNotice is stated, but Lost is never called", sees{"Lost was not called"},
		caught{"removal/forgotten", "removal/broken", "removal/overwritten"}, asking(untold)},
	{"tells-twice", "Lost is called twice", sees{"Lost was called 2 times"},
		caught{"removal/broken"}, asking(func(req *driver.Request) {
			if lost := req.Lost; lost != nil {
				req.Lost = func(err error) { lost(err); lost(err) }
			}
		})},
	{"cries-wolf", "Lost is called although the claim is held", sees{"was told 1 times"},
		caught{"removal/no-false-alarm"}, asking(func(req *driver.Request) {
			if lost := req.Lost; lost != nil {
				time.AfterFunc(req.TTL/2, func() { lost(driver.ErrLost) })
			}
		})},
	{"tells-after-the-next-grant", "no validity is stated, and the holder is told one TTL after the server granted the name to another client", sees{"the holder said Valid"},
		caught{"silence/frozen"}, func(l *lock) {
			l.grant = func(granted *lease) { granted.grant.Until = time.Time{} }
			l.request = func(req *driver.Request) {
				if lost := req.Lost; lost != nil {
					time.AfterFunc(2*req.TTL, func() { lost(driver.ErrLost) })
				}
			}
			l.state = func(c *driver.Capabilities) { c.Ends, c.RemovalNotice = driver.EndsSession, nil }
		}},
	{"hides-interfaces", "a wrapper without Unwrap hides the Waiter that its Capabilities state", sees{"no driver.Waiter is found"},
		caught{"capabilities/interfaces"}, func(l *lock) { l.as = plain{l} }},
	{"changes-its-mind", "Capabilities change between calls", sees{"Capabilities returned"},
		caught{"capabilities/stated"}, func(l *lock) {
			var calls atomic.Int64
			l.state = func(c *driver.Capabilities) { c.MinTTL = time.Duration(calls.Add(1)) }
		}},
	{"states-to-be-prompt", "Prompt is stated, but a claim returns late", sees{"returned later than"},
		caught{"capabilities/prompt"}, failing(func(err error) error {
			if errors.Is(err, driver.ErrUnknown) {
				time.Sleep(300 * time.Millisecond)
			}
			return err
		})},
	{"states-a-fixed-ttl", "FixedTTL is stated, but any TTL is accepted", sees{"was not ErrRefused"},
		caught{"capabilities/fixed-ttl"}, stating(func(c *driver.Capabilities) { c.FixedTTL = time.Second })},
	{"states-a-smallest-ttl", "MinTTL is stated, but a smaller TTL is accepted", sees{"was not ErrRefused"},
		caught{"capabilities/smallest-ttl"}, stating(func(c *driver.Capabilities) { c.MinTTL = time.Second })},
	{"hides-its-tokens", "no tokens are stated, but there are some", sees{"TokenNone"},
		caught{"contract/grant"}, stating(func(c *driver.Capabilities) { c.Token = driver.TokenNone })},
	{"lists-by-pattern", "List treats its prefix as a pattern", sees{"List of prefix"},
		caught{"optional/list"}, func(l *lock) {
			l.list = func(ctx context.Context, prefix string) ([]driver.Status, error) {
				return l.sound.List(ctx, strings.TrimSuffix(prefix, "*"))
			}
		}},
	{"looking-renews", "Inspect extends the claim", sees{"ends with its TTL"},
		caught{"optional/inspect-does-not-renew"}, func(l *lock) {
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
	{"checking-releases", "Check releases the last claim", sees{"another claim was granted"},
		caught{"optional/check"}, func(l *lock) {
			var last driver.Request
			l.request = func(req *driver.Request) { last = *req }
			l.check = func(ctx context.Context) ([]driver.Notice, error) {
				_ = l.sound.Abandon(ctx, last)
				return l.sound.Check(ctx)
			}
		}},
	{"checking-is-silent", "a notice of Check has no remedy", sees{"lacks its ID, text or remedy"},
		caught{"optional/check"}, func(l *lock) {
			l.check = func(context.Context) ([]driver.Notice, error) {
				return []driver.Notice{{ID: "trouble", Text: "Something is wrong."}}, nil
			}
		}},
	{"checking-outstays", "Check waits for the server after its context ends", sees{"after its context ended"},
		caught{"optional/check-silent-server"}, func(l *lock) {
			l.check = func(ctx context.Context) ([]driver.Notice, error) {
				patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return l.sound.Check(patient)
			}
		}},
	{"leaks-goroutines", "every claim leaves a goroutine behind", sees{"no goroutine may be left"},
		caught{"contract/release", "errors/released"}, asking(func(*driver.Request) { go time.Sleep(10 * time.Second) })},
	{"leaks-keys", "every claim leaves a key at the server", sees{"the server must keep nothing"},
		caught{"contract/release", "errors/released"}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			_, _ = l.direct().TryAcquire(ctx, driver.Request{Name: req.Name + ":queue", Owner: req.Owner, TTL: time.Hour})
			return l.sound.TryAcquire(ctx, req)
		})},
	{"leaks-connections", "Close leaves a connection open", sees{"no connection may be left"},
		caught{"cost/connections"}, func(l *lock) { l.hangUp = func() {} }},
}

// stating changes the Capabilities of a lock.
func stating(change func(*driver.Capabilities)) func(*lock) {
	return func(l *lock) { l.state = change }
}
