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
	newExhibit("a-lock-for-each-client", "every client has a lock of its own", "",
		caught{"exclusion/two-backends", "exclusion/clients", "exclusion/many-at-once", "contract/held"}, func(b *Backend) driver.Backend {
			b.inner = memory.NewBackend(memory.Options{})
			return b
		}),
	newExhibit("look-then-take", "it looks whether the name is free, and takes it in a second request whoever has come between", "",
		caught{"exclusion/many-at-once", "exclusion/crowd"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
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
		})),
	newExhibit("session-re-enters", "the lock belongs to the connection, and lets its own client in again", "another claim was granted",
		caught{"exclusion/two-claims"}, func(b *Backend) driver.Backend {
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
		}),
	newExhibit("grants-its-owner-twice", "a claim that is made again with the same owner is granted anew", "granted anew",
		caught{"contract/same-owner"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			if st, _ := b.Inspect(ctx, req.Name); st.Held && st.Owner == req.Owner {
				b.wire.server.LoseSilently(req.Name)
			}
			return b.TryAcquire(ctx, req)
		})),
	newExhibit("folds-case", "names that differ in case only share a lock", "differs from all that are held",
		caught{"names/quick", "names/distinct"}, asking(func(req *driver.Request) { req.Name = strings.ToLower(req.Name) })),
	newExhibit("truncates-names", "names that differ after 1,023 bytes only share a lock", "differs from all that are held",
		caught{"names/quick", "names/distinct"}, asking(func(req *driver.Request) { req.Name = req.Name[:min(len(req.Name), 1023)] })),
	newExhibit("normalises-names", "é is the same as e with an accent", "differs from all that are held",
		caught{"names/quick", "names/distinct"}, asking(func(req *driver.Request) { req.Name = strings.ReplaceAll(req.Name, "e\u0301", "é") })),
	newExhibit("trims-names", "spaces at the end of a name do not count, as in a CHAR column", "differs from all that are held",
		caught{"names/distinct"}, asking(func(req *driver.Request) { req.Name = strings.TrimRight(req.Name, " ") })),
	newExhibit("cleans-paths", "names are paths, and a//b is a/b", "differs from all that are held",
		caught{"names/distinct"}, asking(func(req *driver.Request) { req.Name = strings.ReplaceAll(req.Name, "//", "/") })),
	newExhibit("decodes-names", "%2F in a name is the same as /", "differs from all that are held",
		caught{"names/quick", "names/distinct"}, asking(func(req *driver.Request) { req.Name = strings.ReplaceAll(req.Name, "%2F", "/") })),
	newExhibit("client-is-the-owner", "a claim's owner is its client, not the claim (a process or thread id)", "",
		caught{"ownership/abandon-of-others", "exclusion/two-claims"},
		asking(func(req *driver.Request) { req.Owner = strings.Repeat("0", 32) + ":" + driver.OwnerClient(req.Owner) })),
	newExhibit("truncates-owners", "owner ids are cut off after 255 bytes", "",
		caught{"contract/limits"}, asking(func(req *driver.Request) { req.Owner = req.Owner[:min(len(req.Owner), 255)] })),
	newExhibit("repeats-tokens", "tokens are counted by each client for itself", "token",
		caught{"fencing/holders", "fencing/reopened", "exclusion/crowd"}, func(b *Backend) driver.Backend {
			var last atomic.Uint64
			return leased(b, func(l *lease) driver.Lease { l.grant.Token = last.Add(1); return l })
		}),
	newExhibit("no-tokens", "tokens are stated, and there are none", "the token is 0",
		caught{"contract/grant"}, leasing(func(l *lease) driver.Lease { l.grant.Token = 0; return l })),
	newExhibit("counts-the-grant-from-its-reply", "the validity of a grant counts from when its reply came", "late",
		caught{"contract/grant-counts-from-sending"}, leasing(func(l *lease) driver.Lease { l.grant.Until = time.Now().Add(l.ttl); return l })),
	newExhibit("rounds-the-ttl-down", "the TTL goes to the server in whole tenths of a second, rounded down", "lasted for",
		caught{"capabilities/grain"}, asking(func(req *driver.Request) { req.TTL = max(req.TTL.Truncate(100*time.Millisecond), time.Millisecond) })),
	newExhibit("a-waiter-prolongs-the-holder", "SETNX, and EXPIRE although SETNX failed: who fails to get the lock prolongs it", "nobody but the failed claims",
		caught{"exclusion/a-claim-that-failed"}, func(b *Backend) driver.Backend {
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
		}),
	newExhibit("expiry-in-a-second-request", "SETNX, then EXPIRE: who dies between leaves a lock that never ends", "cut off after request 1",
		caught{"unknown/cut-after-each-request-orphan"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
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
		})),
}
