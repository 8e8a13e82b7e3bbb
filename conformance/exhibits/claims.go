package exhibits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// claims are locks that grant wrongly.
var claims = []Exhibit{
	{"a-lock-for-each-client", "every client has a lock of its own",
		caught{"exclusion/two-backends": "another client has the name, yet", "exclusion/clients": "process", "exclusion/many-at-once": "of only 1",
			"contract/held": "a second claim was not ErrHeld"}, func(l *lock) {
			l.hangUp()
			l.as = newLock(nil, l.net, l.shared)
		}},
	{"look-then-take", "it checks that the name is free, and takes it in a second request even if another client was faster",
		caught{"exclusion/many-at-once": "of only 1", "exclusion/crowd": "name "}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			st, err := l.sound.Inspect(ctx, req.Name)
			if err != nil {
				return nil, err
			}
			if st.Held && st.Owner != req.Owner {
				return nil, &driver.HeldError{Poll: 5 * time.Millisecond}
			}
			time.Sleep(time.Millisecond)
			l.takeFrom(ctx, req.Name, func(owner string) bool { return owner != req.Owner })
			return l.sound.TryAcquire(ctx, req)
		})},
	{"session-re-enters", "the lock belongs to the connection, so its own client can lock again",
		caught{"exclusion/two-claims": "another claim was granted"}, func(l *lock) {
			var mu sync.Mutex
			mine := make(map[string]driver.Lease)
			claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
				mu.Lock()
				defer mu.Unlock()
				if again := mine[req.Name]; again != nil {
					return again, nil
				}
				granted, err := l.sound.TryAcquire(ctx, req)
				if err == nil {
					mine[req.Name] = granted
				}
				return granted, err
			})(l)
		}},
	{"grants-its-owner-twice", "a claim that is repeated with the same owner is granted again",
		caught{"contract/same-owner": "granted the name again"}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			l.takeFrom(ctx, req.Name, func(owner string) bool { return owner == req.Owner })
			return l.sound.TryAcquire(ctx, req)
		})},
	{"tries-again", "a claim on a held name is repeated for a while, as with a library's default options",
		caught{"contract/held": "must make one attempt"}, claiming(func(l *lock, ctx context.Context, req driver.Request) (granted driver.Lease, err error) {
			for range 4 {
				if granted, err = l.sound.TryAcquire(ctx, req); !isHeld(err) {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			return granted, err
		})},
	{"folds-case", "names that differ only in case share a lock",
		caught{"names/quick": "differs from all held names", "names/distinct": "differs from all held names"}, naming(strings.ToLower)},
	{"truncates-names", "names that differ only after 1,023 bytes share a lock",
		caught{"names/quick": "differs from all held names", "names/distinct": "differs from all held names"}, naming(func(name string) string { return name[:min(len(name), 1023)] })},
	{"normalizes-names", "composed and decomposed é are the same name",
		caught{"names/quick": "differs from all held names", "names/distinct": "differs from all held names"}, naming(strings.NewReplacer("e\u0301", "é").Replace)},
	{"trims-names", "trailing spaces are ignored, as in a CHAR column",
		caught{"names/distinct": "differs from all held names"}, naming(func(name string) string { return strings.TrimRight(name, " ") })},
	{"cleans-paths", "names are paths, and a//b is a/b",
		caught{"names/distinct": "differs from all held names"}, naming(strings.NewReplacer("//", "/").Replace)},
	{"decodes-names", "%2F in a name is the same as /",
		caught{"names/quick": "differs from all held names", "names/distinct": "differs from all held names"}, naming(strings.NewReplacer("%2F", "/").Replace)},
	{"client-is-the-owner", "a claim's owner is its client, not the claim (a process or thread id)",
		caught{"ownership/abandon-of-others": "the name, yet ", "exclusion/two-claims": "the name, yet "},
		asking(func(req *driver.Request) { req.Owner = strings.Repeat("0", 32) + ":" + driver.OwnerClient(req.Owner) })},
	{"truncates-owners", "owner ids are cut off after 255 bytes",
		caught{"contract/limits": "differs in its last byte"}, asking(func(req *driver.Request) { req.Owner = req.Owner[:min(len(req.Owner), 255)] })},
	{"repeats-tokens", "each client counts its own tokens",
		caught{"fencing/holders": "P2 fencing", "fencing/idle": "P2 fencing", "exclusion/crowd": "P2 fencing"}, func(l *lock) {
			var last atomic.Uint64
			l.grant = func(l *lease) { l.grant.Token = last.Add(1) }
		}},
	{"no-tokens", "tokens are stated, but there are none",
		caught{"contract/grant": "the token is 0"}, func(l *lock) { l.grant = func(l *lease) { l.grant.Token = 0 } }},
	{"counts-the-grant-from-its-reply", "the validity of a grant counts from its reply",
		caught{"contract/grant-counts-from-sending": "late", "contract/same-owner-later": "validity ended"}, func(l *lock) {
			l.grant = func(l *lease) { l.grant.Until = time.Now().Add(l.req.TTL) }
		}},
	{"rounds-the-ttl-down", "the TTL goes to the server in half seconds, rounded down",
		caught{"capabilities/grain": "lasted for"}, asking(func(req *driver.Request) { req.TTL = max(req.TTL.Truncate(500*time.Millisecond), time.Millisecond) })},
}

// takeFrom removes the holder of name if its owner is one of those.
func (l *lock) takeFrom(ctx context.Context, name string, those func(owner string) bool) {
	if st, _ := l.sound.Inspect(ctx, name); st.Held && those(st.Owner) {
		l.take(name)
	}
}

// claiming replaces how a claim is made, also when it waits.
func claiming(claim func(*lock, context.Context, driver.Request) (driver.Lease, error)) func(*lock) {
	return func(l *lock) {
		l.claim = func(ctx context.Context, req driver.Request) (driver.Lease, error) { return claim(l, ctx, req) }
		l.wait = func(ctx context.Context, req driver.Request) (driver.Lease, error) {
			if granted, err := claim(l, ctx, req); !isHeld(err) {
				return granted, err
			}
			return l.sound.Wait(ctx, req)
		}
	}
}

// asking changes requests.
func asking(change func(*driver.Request)) func(*lock) {
	return func(l *lock) { l.request = change }
}

// naming changes names.
func naming(change func(string) string) func(*lock) {
	return asking(func(req *driver.Request) { req.Name = change(req.Name) })
}

// heldByAnother is why a name is not free although its claim was abandoned.
const heldByAnother = "lock is held"

// outcomes are locks that report a wrong outcome.
var outcomes = []Exhibit{
	{"never-abandons", "Abandon returns nil and does nothing: a claim whose reply was lost stays",
		caught{"unknown/acquire-reply-lost": heldByAnother, "cancellation/queued": heldByAnother, "cancellation/waiting-at-the-grant": heldByAnother,
			"ownership/abandon-twice": heldByAnother, "fencing/holders": heldByAnother, "giving-up/many-cut-off": heldByAnother,
			"giving-up/many-reply-lost": heldByAnother, "giving-up/at-the-hand-off": "released", "shared/acquire-reply-lost": heldByAnother,
			"permits/acquire-reply-lost": heldByAnother, "shared/abandoned": "a claim was not granted", "permits/abandoned": "a claim was not granted"}, func(l *lock) {
			l.abandon = func(context.Context, driver.Request) error { return nil }
		}},
	{"grants-what-was-abandoned", "a claim that arrives after it was abandoned is granted",
		caught{"cancellation/claim-under-way": heldByAnother}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			granted, err := l.sound.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrUnknown) {
				time.AfterFunc(500*time.Millisecond, func() { _, _ = l.sound.TryAcquire(context.WithoutCancel(ctx), req) })
			}
			return granted, err
		})},
	{"believes-what-will-pass",
		"a claim repeated after a lost reply is granted but not renewed: it belongs to the earlier session",
		caught{"unknown/acquire-reply-lost-kept": "yet another claim was granted"}, func(l *lock) {
			l.renew = func(ctx context.Context, l *lease) (time.Time, error) {
				if _, found := l.lock.shared.Load(l.req.Owner); found {
					return time.Now().Add(l.req.TTL), nil
				}
				return l.soundly(ctx)
			}
			claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
				granted, err := l.sound.TryAcquire(ctx, req)
				if errors.Is(err, driver.ErrUnknown) {
					l.shared.Store(req.Owner, true)
					return l.sound.TryAcquire(ctx, req)
				}
				return granted, err
			})(l)
		}},
	{"guesses-that-nothing-happened", "a claim whose reply was lost is reported to have had no effect",
		caught{"unknown/acquire-reply-lost": "is unavailable: outcome unknown", "unknown/cut-after-each-request": "is unavailable: outcome unknown",
			"unknown/many-cut-off": "is unavailable: outcome unknown", "shared/cut-after-each-request": "is unavailable: outcome unknown",
			"permits/cut-after-each-request": "is unavailable: outcome unknown"}, failing(func(err error) error {
			if errors.Is(err, driver.ErrUnknown) {
				return fmt.Errorf("%w: %v", driver.ErrUnavailable, err)
			}
			return err
		})},
	{"grants-without-a-server", "if the server is unreachable, the claim is granted anyway",
		caught{"unknown/server-gone": "lease: true"}, claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
			granted, err := l.sound.TryAcquire(ctx, req)
			if errors.Is(err, driver.ErrUnavailable) {
				return new(lease), nil
			}
			return granted, err
		})},
	{"two-classes", "an error matches two classes",
		caught{"contract/held": "exactly one class"}, failing(func(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) })},
	{"shows-the-password", "an error shows the URL with its password",
		caught{"unknown/server-gone": "shows the password"}, failing(func(err error) error { return fmt.Errorf("wire://user:hunter2@localhost: %w", err) })},
}

// failing changes the errors of claims.
func failing(change func(error) error) func(*lock) {
	return claiming(func(l *lock, ctx context.Context, req driver.Request) (driver.Lease, error) {
		granted, err := l.sound.TryAcquire(ctx, req)
		if err != nil {
			err = change(err)
		}
		return granted, err
	})
}
