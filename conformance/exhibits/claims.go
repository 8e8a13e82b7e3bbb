package exhibits

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// claims are locks that grant what they should not.
var claims = []Exhibit{
	{
		Name: "a-lock-for-each-client", Is: "every client has a lock of its own",
		CaughtBy: []string{"exclusion/two-backends", "exclusion/clients", "exclusion/many-at-once", "contract/held"},
		Sees:     "",
		broken: func(b *Backend) driver.Backend {
			b.inner = memory.NewBackend(memory.Options{})
			return b
		},
	},
	{
		Name: "look-then-take", Is: "it looks whether the name is free, and takes it in a second request whoever has come between",
		CaughtBy: []string{"exclusion/many-at-once", "exclusion/crowd"},
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				st, err := b.Inspect(ctx, req.Name)
				if err != nil {
					return nil, err
				}
				if st.Held && st.Owner != req.Owner {
					return nil, &driver.HeldError{Poll: 5 * time.Millisecond}
				}
				time.Sleep(time.Millisecond)
				if st, _ := b.Inspect(ctx, req.Name); st.Held && st.Owner != req.Owner {
					b.wire.server.LoseSilently(req.Name)
				}
				return b.TryAcquire(ctx, req)
			}}
		},
	},
	{
		Name: "session-re-enters", Is: "the lock belongs to the connection, and lets its own client in again",
		CaughtBy: []string{"exclusion/two-claims"}, Sees: "another claim was granted",
		broken: func(b *Backend) driver.Backend {
			var mu sync.Mutex
			mine := make(map[string]driver.Lease)
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				mu.Lock()
				defer mu.Unlock()
				if l := mine[req.Name]; l != nil {
					return l, nil
				}
				l, err := b.TryAcquire(ctx, req)
				if err == nil {
					mine[req.Name] = l
				}
				return l, err
			}}
		},
	},
	{
		Name: "grants-its-owner-twice", Is: "a claim that is made again with the same owner is granted anew",
		CaughtBy: []string{"contract/same-owner"}, Sees: "granted anew",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				if st, _ := b.Inspect(ctx, req.Name); st.Held && st.Owner == req.Owner {
					b.wire.server.LoseSilently(req.Name)
				}
				return b.TryAcquire(ctx, req)
			}}
		},
	},
	{
		Name: "folds-case", Is: "names that differ in case only share a lock",
		CaughtBy: []string{"names/quick", "names/distinct"}, Sees: "differs from all that are held",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Name = strings.ToLower(req.Name) })
		},
	},
	{
		Name: "truncates-names", Is: "names that differ after 1,023 bytes only share a lock",
		CaughtBy: []string{"names/quick", "names/distinct"}, Sees: "differs from all that are held",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Name = req.Name[:min(len(req.Name), 1023)] })
		},
	},
	{
		Name: "normalises-names", Is: "é is the same as e with an accent",
		CaughtBy: []string{"names/quick", "names/distinct"}, Sees: "differs from all that are held",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Name = strings.ReplaceAll(req.Name, "e\u0301", "é") })
		},
	},
	{
		Name: "trims-names", Is: "spaces at the end of a name do not count, as in a CHAR column",
		CaughtBy: []string{"names/distinct"}, Sees: "differs from all that are held",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Name = strings.TrimRight(req.Name, " ") })
		},
	},
	{
		Name: "cleans-paths", Is: "names are paths, and a//b is a/b",
		CaughtBy: []string{"names/distinct"}, Sees: "differs from all that are held",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Name = strings.ReplaceAll(req.Name, "//", "/") })
		},
	},
	{
		Name: "decodes-names", Is: "%2F in a name is the same as /",
		CaughtBy: []string{"names/quick", "names/distinct"}, Sees: "differs from all that are held",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Name = strings.ReplaceAll(req.Name, "%2F", "/") })
		},
	},
	{
		Name: "client-is-the-owner", Is: "a claim's owner is its client, not the claim (a process or thread id)",
		CaughtBy: []string{"ownership/abandon-of-others", "exclusion/two-claims"},
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Owner = strings.Repeat("0", 32) + ":" + driver.OwnerClient(req.Owner) })
		},
	},
	{
		Name: "truncates-owners", Is: "owner ids are cut off after 255 bytes",
		CaughtBy: []string{"contract/limits"},
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.Owner = req.Owner[:min(len(req.Owner), 255)] })
		},
	},
	{
		Name: "repeats-tokens", Is: "tokens are counted by each client for itself",
		CaughtBy: []string{"fencing/holders", "fencing/reopened", "exclusion/crowd"}, Sees: "token",
		broken: func(b *Backend) driver.Backend {
			var last atomic.Uint64
			return leased(b, func(l *lease) driver.Lease { l.grant.Token = last.Add(1); return l })
		},
	},
	{
		Name: "no-tokens", Is: "tokens are stated, and there are none",
		CaughtBy: []string{"contract/grant"}, Sees: "the token is 0",
		broken: func(b *Backend) driver.Backend {
			return leased(b, func(l *lease) driver.Lease { l.grant.Token = 0; return l })
		},
	},
	{
		Name: "counts-the-grant-from-its-reply", Is: "the validity of a grant counts from when its reply came",
		CaughtBy: []string{"contract/grant-counts-from-sending"}, Sees: "late",
		broken: func(b *Backend) driver.Backend {
			return leased(b, func(l *lease) driver.Lease { l.grant.Until = time.Now().Add(l.ttl); return l })
		},
	},
	{
		Name: "rounds-the-ttl-down", Is: "the TTL goes to the server in whole tenths of a second, rounded down",
		CaughtBy: []string{"capabilities/grain"}, Sees: "lasted for",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(req *driver.Request) { req.TTL = max(req.TTL.Truncate(100*time.Millisecond), time.Millisecond) })
		},
	},
	{
		Name: "a-waiter-prolongs-the-holder", Is: "SETNX, and EXPIRE although SETNX failed: who fails to get the lock prolongs it",
		CaughtBy: []string{"exclusion/a-claim-that-failed"}, Sees: "nobody but the failed claims",
		broken: func(b *Backend) driver.Backend {
			shared := b.wire.leases()
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				l, err := b.TryAcquire(ctx, req)
				if err == nil {
					shared.Store(req.Name, l)
				} else if holder, ok := shared.Load(req.Name); ok && isHeld(err) {
					_, _ = holder.(driver.Lease).Renew(ctx)
				}
				return l, err
			}}
		},
	},
	{
		Name: "expiry-in-a-second-request", Is: "SETNX, then EXPIRE: who dies between leaves a lock that never ends",
		CaughtBy: []string{"unknown/cut-after-each-request-orphan"}, Sees: "cut off after request 1",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				forEver := req
				forEver.TTL = time.Hour
				l, err := b.TryAcquire(ctx, forEver)
				if err != nil {
					return nil, err
				}
				sent := time.Now()
				if err := b.send(ctx, conformance.OpAcquire, func() {
					_, _ = b.inner.TryAcquire(ctx, req) // the same owner: its TTL is now the one that it should have had
					_, _ = core(l).inner.Renew(ctx)
				}); err != nil {
					return nil, err
				}
				return b.lease(core(l).inner, req, sent), nil
			}}
		},
	},
}
