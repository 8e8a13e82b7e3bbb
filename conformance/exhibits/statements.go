package exhibits

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

// statements are locks that promise what they do not keep, and wrappers that hide what there is.
var statements = []Exhibit{
	newExhibit("never-tells-of-removal", "RemovalNotice is stated, and Lost is never called", "Lost was not called",
		caught{"removal/forgotten", "removal/broken", "removal/overwritten"}, asking(func(req *driver.Request) { req.Lost = nil })),
	newExhibit("tells-twice", "Lost is called twice", "Lost was called 2 times",
		caught{"removal/broken"}, asking(func(req *driver.Request) {
			if lost := req.Lost; lost != nil {
				req.Lost = func(err error) { lost(err); lost(err) }
			}
		})),
	newExhibit("cries-wolf", "Lost is called although the claim is there", "was told 1 times",
		caught{"removal/no-false-alarm"}, asking(func(req *driver.Request) {
			if lost := req.Lost; lost != nil {
				time.AfterFunc(req.TTL/2, func() { lost(driver.ErrLost) })
			}
		})),
	newExhibit("hides-interfaces", "a wrapper without Unwrap hides the Waiter that its Capabilities state", "no driver.Waiter is found",
		caught{"capabilities/interfaces"}, func(b *Backend) driver.Backend { return plain{b} }),
	newExhibit("changes-its-mind", "Capabilities are not the same at every call", "then",
		caught{"capabilities/stated"}, func(b *Backend) driver.Backend { return &fickle{Backend: b} }),
	newExhibit("states-to-be-prompt", "Prompt is stated, and a claim returns when its client library likes to", "returned later than",
		caught{"capabilities/prompt"}, func(b *Backend) driver.Backend {
			return states(claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if errors.Is(err, driver.ErrUnknown) {
					time.Sleep(300 * time.Millisecond)
				}
				return l, err
			}}, func(c *driver.Capabilities) { c.Prompt = true })
		}),
	newExhibit("states-a-fixed-ttl", "FixedTTL is stated, and any TTL is accepted", "was not ErrRefused",
		caught{"capabilities/fixed-ttl"}, stating(func(c *driver.Capabilities) { c.FixedTTL = time.Second })),
	newExhibit("states-a-smallest-ttl", "MinTTL is stated, and a smaller TTL is accepted", "was not ErrRefused",
		caught{"capabilities/smallest-ttl"}, stating(func(c *driver.Capabilities) { c.MinTTL = time.Second })),
	newExhibit("hides-its-tokens", "no tokens are stated, and there are some", "TokenNone",
		caught{"contract/grant"}, stating(func(c *driver.Capabilities) { c.Token = driver.TokenNone })),
	newExhibit("lists-by-pattern", "List takes its prefix for a pattern", "List of prefix",
		caught{"optional/list"}, func(b *Backend) driver.Backend { return patterns{b} }),
	newExhibit("looking-renews", "Inspect prolongs the claim that it looks at", "ends with its TTL",
		caught{"optional/inspect-does-not-renew"}, func(b *Backend) driver.Backend {
			shared := b.wire.leases()
			return looks{leased(b, func(l *lease) driver.Lease { shared.Store(l.req.Name, l); return l }).(claimed)}
		}),
	newExhibit("checking-releases", "Check releases what was claimed last", "another claim was granted",
		caught{"optional/check"}, func(b *Backend) driver.Backend {
			var last driver.Request
			return checking{renamed(b, func(req *driver.Request) { last = *req }), func(ctx context.Context) ([]driver.Notice, error) {
				_ = b.Abandon(ctx, last)
				return b.Check(ctx)
			}}
		}),
	newExhibit("checking-is-silent", "a notice of Check does not say what to do", "lacks its ID, text or remedy",
		caught{"optional/check"}, func(b *Backend) driver.Backend {
			return checking{b, func(context.Context) ([]driver.Notice, error) {
				return []driver.Notice{{ID: "trouble", Text: "Something is wrong."}}, nil
			}}
		}),
	newExhibit("checking-outstays", "Check waits for the server, whatever its context says", "after its context ended",
		caught{"optional/check-silent-server"}, func(b *Backend) driver.Backend {
			return checking{b, func(ctx context.Context) ([]driver.Notice, error) {
				patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return b.Check(patient)
			}}
		}),
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
