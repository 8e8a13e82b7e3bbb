package exhibits

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

// statements are locks that promise what they do not keep, and wrappers that hide what there is.
var statements = []Exhibit{
	{
		Name: "never-tells-of-removal", Is: "RemovalNotice is stated, and Lost is never called",
		CaughtBy: []string{"removal/forgotten", "removal/broken", "removal/overwritten"}, Sees: "Lost was not called",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Lost = nil })
		},
	},
	{
		Name: "tells-twice", Is: "Lost is called twice",
		CaughtBy: []string{"removal/broken"}, Sees: "Lost was called 2 times",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) {
				if lost := req.Lost; lost != nil {
					req.Lost = func(err error) { lost(err); lost(err) }
				}
			})
		},
	},
	{
		Name: "cries-wolf", Is: "Lost is called although the claim is there",
		CaughtBy: []string{"removal/no-false-alarm"}, Sees: "was told 1 times",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) {
				if lost := req.Lost; lost != nil {
					time.AfterFunc(req.TTL/2, func() { lost(driver.ErrLost) })
				}
			})
		},
	},
	{
		Name: "hides-interfaces", Is: "a wrapper without Unwrap hides the Waiter that its Capabilities state",
		CaughtBy: []string{"capabilities/interfaces"}, Sees: "no driver.Waiter is found",
		broken: func(b *Backend) driver.Backend { return plain{b} },
	},
	{
		Name: "changes-its-mind", Is: "Capabilities are not the same at every call",
		CaughtBy: []string{"capabilities/stated"}, Sees: "then",
		broken: func(b *Backend) driver.Backend { return &fickle{Backend: b} },
	},
	{
		Name: "states-to-be-prompt", Is: "Prompt is stated, and a claim returns when its client library likes to",
		CaughtBy: []string{"capabilities/prompt"}, Sees: "returned later than",
		broken: func(b *Backend) driver.Backend {
			return states(claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if errors.Is(err, driver.ErrUnknown) {
					time.Sleep(300 * time.Millisecond)
				}
				return l, err
			}}, func(c *driver.Capabilities) { c.Prompt = true })
		},
	},
	{
		Name: "states-a-fixed-ttl", Is: "FixedTTL is stated, and any TTL is accepted",
		CaughtBy: []string{"capabilities/fixed-ttl"}, Sees: "was not ErrRefused",
		broken: func(b *Backend) driver.Backend {
			return states(b, func(c *driver.Capabilities) { c.FixedTTL = time.Second })
		},
	},
	{
		Name: "states-a-smallest-ttl", Is: "MinTTL is stated, and a smaller TTL is accepted",
		CaughtBy: []string{"capabilities/smallest-ttl"}, Sees: "was not ErrRefused",
		broken: func(b *Backend) driver.Backend {
			return states(b, func(c *driver.Capabilities) { c.MinTTL = time.Second })
		},
	},
	{
		Name: "hides-its-tokens", Is: "no tokens are stated, and there are some",
		CaughtBy: []string{"contract/grant"}, Sees: "TokenNone",
		broken: func(b *Backend) driver.Backend {
			return states(b, func(c *driver.Capabilities) { c.Token = driver.TokenNone })
		},
	},
	{
		Name: "lists-by-pattern", Is: "List takes its prefix for a pattern",
		CaughtBy: []string{"optional/list"}, Sees: "List of prefix",
		broken: func(b *Backend) driver.Backend { return patterns{b} },
	},
	{
		Name: "looking-renews", Is: "Inspect prolongs the claim that it looks at",
		CaughtBy: []string{"optional/inspect-does-not-renew"}, Sees: "ends with its TTL",
		broken: func(b *Backend) driver.Backend {
			shared := b.wire.leases()
			return looks{leased(b, func(l *lease) driver.Lease { shared.Store(l.req.Name, l); return l }).(claimed)}
		},
	},
	{
		Name: "checking-releases", Is: "Check releases what was claimed last",
		CaughtBy: []string{"optional/check"}, Sees: "another claim was granted",
		broken: func(b *Backend) driver.Backend {
			var last driver.Request
			return checking{renamed(b, func(req *driver.Request) { last = *req }), func(ctx context.Context) ([]driver.Notice, error) {
				_ = b.Abandon(ctx, last)
				return b.Check(ctx)
			}}
		},
	},
	{
		Name: "checking-is-silent", Is: "a notice of Check does not say what to do",
		CaughtBy: []string{"optional/check"}, Sees: "lacks its ID, text or remedy",
		broken: func(b *Backend) driver.Backend {
			return checking{b, func(context.Context) ([]driver.Notice, error) {
				return []driver.Notice{{ID: "trouble", Text: "Something is wrong."}}, nil
			}}
		},
	},
	{
		Name: "checking-outstays", Is: "Check waits for the server, whatever its context says",
		CaughtBy: []string{"optional/check-silent-server"}, Sees: "after its context ended",
		broken: func(b *Backend) driver.Backend {
			return checking{b, func(ctx context.Context) ([]driver.Notice, error) {
				patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return b.Check(patient)
			}}
		},
	},
}

// checking is a backend with another Check.
type checking struct {
	driver.Backend
	check func(context.Context) ([]driver.Notice, error)
}

// Check implements driver.Checker.
func (b checking) Check(ctx context.Context) ([]driver.Notice, error) { return b.check(ctx) }

// fickle is a backend whose capabilities change.
type fickle struct {
	*Backend
	calls int
}

// Capabilities implements driver.Backend.
func (b *fickle) Capabilities() driver.Capabilities {
	caps := b.Backend.Capabilities()
	b.calls++
	caps.Poll = time.Duration(b.calls)
	return caps
}

// patterns is a backend with another List.
type patterns struct{ *Backend }

// List implements driver.Inspector.
func (b patterns) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if n := len(prefix); n > 0 && prefix[n-1] == '*' {
		prefix = prefix[:n-1]
	}
	return b.Backend.List(ctx, prefix)
}

// looks is a backend with another Inspect.
type looks struct{ claimed }

// Inspect implements driver.Inspector. A claim that has ended, since nobody looked at it for so long (on a busy machine, say), comes back.
func (b looks) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if shared, ok := b.wire.leases().Load(name); ok {
		l := shared.(*lease)
		if _, err := l.Renew(ctx); errors.Is(err, driver.ErrLost) {
			_, _ = b.Backend.TryAcquire(ctx, l.req)
		}
	}
	return b.Backend.Inspect(ctx, name)
}
