package exhibits

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// modes are locks with faults in shared claims, permits or detached claims.
var modes = []Exhibit{
	{"reader-beside-writer", "readers have their own lock, which writers ignore",
		caught{"shared/together": "readers have the name, yet", "shared/many-at-once": "of only 18",
			"shared/clients": "places are taken at once"}, asking(func(req *driver.Request) {
			if req.Shared {
				req.Name += " (readers)"
			}
		})},
	{"one-reader", "readers exclude each other",
		caught{"shared/together": "a claim was not granted"}, asking(func(req *driver.Request) { req.Shared = false })},
	{"overtaking-readers", "a writer does not queue, and readers join readers even if a writer waits",
		caught{"shared/writer-is-not-starved": "moments only"}, func(l *lock) {
			l.state = func(c *driver.Capabilities) {
				c.Wake, c.Fair, c.Contended = driver.WakeQueueOrPoll, driver.FairNone, false
			}
			l.request = func(req *driver.Request) { req.Contended = nil; req.Queue = req.Queue && req.Shared }
			l.wait = func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				if !req.Shared {
					return nil, &driver.HeldError{Poll: 250 * time.Millisecond}
				}
				return l.sound.Wait(ctx, req)
			}
		}},
	{"one-permit-more", "one permit too many is granted",
		caught{"permits/together": "all permits are held, yet", "permits/many-at-once": "of only 3", "permits/clients": "4 of 3 places are taken"}, asking(func(req *driver.Request) {
			if req.Permits > 0 {
				req.Permits++
			}
		})},
	{"permit-counted-twice", "a claim that is repeated after a lost reply takes a second permit",
		caught{"permits/granted-twice": "by an owner that claimed twice"}, func(l *lock) {
			var seen sync.Map
			claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
				if _, again := seen.LoadOrStore(req.Owner, true); again && req.Permits > 0 {
					second := req
					second.Owner = string(rune(req.Owner[0]^1)) + req.Owner[1:] // another owner
					_, _ = l.sound.TryAcquire(ctx, second)
				}
				return l.sound.TryAcquire(ctx, req)
			})(l)
		}},
	{"permit-of-the-dead", "permits do not expire: a dead process's permits are never free again",
		caught{"permits/dead-holder": "a holder has died", "permits/silent-holder": "no claim on the name is renewed"}, asking(func(req *driver.Request) {
			if req.Permits > 0 {
				req.TTL *= 1000
			}
		})},
	{"readers-of-the-dead", "the readers' claim ends when its first reader's does, even if others joined",
		caught{"shared/dead-holder": ", yet "}, func(l *lock) {
			first, _ := l.shared.LoadOrStore("first readers", new(sync.Map))
			l.grant = func(granted *lease) {
				if granted.req.Shared {
					end, _ := first.(*sync.Map).LoadOrStore(granted.req.Name, time.Now().Add(granted.req.TTL))
					time.AfterFunc(time.Until(end.(time.Time)), func() { l.take(granted.req.Name) })
				}
			}
		}},
	{"attach-without-looking", "every Attach with a ticket succeeds, however often it was attached",
		caught{"detach/attached": "was not ErrLost"}, func(l *lock) {
			l.attach = func(ctx context.Context, req driver.Request, _ string, token uint64) (driver.Lease, error) {
				l.take(req.Name)
				granted, err := l.sound.TryAcquire(ctx, req)
				if err != nil {
					return nil, fmt.Errorf("%w: %w", driver.ErrLost, err)
				}
				late := &lease{Lease: granted, lock: l, req: req, grant: granted.Grant()}
				late.grant.Token = token
				return late, nil
			}
		}},
	{"attached-for-ever", "an attached lock never expires",
		caught{"detach/renewed": "a claim that is not renewed ends with its TTL"}, func(l *lock) {
			l.attach = func(ctx context.Context, req driver.Request, owner string, token uint64) (driver.Lease, error) {
				req.TTL *= 1000
				return l.sound.Attach(ctx, req, owner, token)
			}
		}},
	{"shows-one-holder", "Inspect shows only one of several readers or permits",
		caught{"shared/inspected": "hold the name, and Inspect says", "permits/inspected": "hold the name, and Inspect says"}, inspecting(func(st *driver.Status) { st.Others = nil })},
	{"detached-for-ever", "a detached lock is still renewed by the client that detached it",
		caught{"detach/expired": "a detached claim ends with its TTL"}, func(l *lock) {
			l.detach = func(_ context.Context, detached driver.Lease) error {
				go func() {
					for range 100 {
						_, _ = driver.Renew(context.Background(), l.sound, detached)
						time.Sleep(100 * time.Millisecond)
					}
				}()
				return nil
			}
		}},
}
