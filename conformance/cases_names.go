package conformance

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleNames = "P9 names: any UTF-8 of 1 to 1,024 bytes is a name, case-sensitive; distinct names never share a lock"

// namesCases test P9. The groups below test P10 and P11.
var namesCases = group("names",
	full("distinct", ruleNames, func(e *Env) { distinct(e, oddNames(e.name())) }),
	full("whole", ruleNames+" (names of special characters only)", func(e *Env) {
		// These names lack the prefix of this run, so another run may hold them for a moment.
		p := e.party()
		for _, name := range []string{".", "..", "/", "//", "../..", " ", "\t", "\n", "\x00", "%", "%00", "{", "}", "{}", "*", "?", "[",
			"\\", "'", "\"", "-", ":", "é", "锁"} {
			p.take(name, 2*e.takeover(), "the name "+quote(name)+" is free, and differs from all held names")
		}
	}),
	quick("quick", ruleNames, func(e *Env) {
		n := e.name()
		distinct(e, []string{n + "a", n + "A", n + "é", n + "e\u0301", n + "/a", n + "%2Fa", n + "a ", n + "锁",
			pad(n, 1023), pad(n, 1024), pad(n, 1023) + "y"})
	}),
)

// pad extends name to the given number of bytes.
func pad(name string, bytes int) string { return name + strings.Repeat("x", bytes-len(name)) }

// oddNames returns names that begin with base and that some layer of a client or server may confuse.
func oddNames(base string) []string {
	names := []string{base} // a prefix of all others
	for _, s := range []string{
		"a", "A", "ａ", // case, full width
		"é", "e\u0301", "É", "E\u0301", // composed and decomposed
		"ß", "ss", "ẞ", "SS", "ı", "i", "İ", "I", "K", "k", "\u212a", // case folding that changes lengths or depends on the language
		"ﬁ", "fi", "①", "1", // compatibility
		"/", "//", "/.", "/..", "/../a", "/a", "/a/", "\\", "\\a",
		" ", "  ", "a ", " a", "\t", "\n", "a\n", "\r\n", "\x00", "a\x00", "\x00a", "\x7f", "\u0085", "\u200b", "\ufeff", "a\u200d",
		"%", "%%", "%2F", "%2f", "%25", "%252F", "%00", "+", "{", "}", "{}", "{a}", "{a}b", "{b}a", "%7B", "%7Ba%7D",
		"*", "?", "[a]", "[b]", "a*", "_", "a_", "'", "''", "\"", "`", ";", "--", "$1", "${a}", ":", "::", "a:b", "#", "&", "=", "|", "~", "<>",
		"锁", "鎖", "分布式锁", "🔒", "🔓", "👩‍🔬", "\U0010ffff", "\ufffd", "\ufffe", "\uf8ff", "\ud7ff", "ü", "u\u0308",
		".", "..", "...", "-", "-0000000001", "0000000001", "lock", ".lock", ".tmp",
	} {
		names = append(names, base+s)
	}
	for _, n := range []int{63, 64, 65, 127, 128, 191, 192, 193, 254, 255, 256, 511, 512, 1022, 1023, 1024} {
		names = append(names, pad(base, n))
	}
	// Names of the greatest length that differ in the last byte, or in the first after base, or consist of encoded characters.
	names = append(names, pad(base, 1023)+"y", pad(base+"y", 1024), base+strings.Repeat("/", 1024-len(base)),
		base+strings.Repeat("%", 1024-len(base)), strings.ToValidUTF8((base + strings.Repeat("锁", 400))[:1024], ""))
	return names
}

// distinct claims all names, and checks that each is held.
func distinct(e *Env, names []string) {
	a, b := e.party(), e.party()
	leases := make(map[string]driver.Lease)
	for _, name := range names {
		if leases[name] != nil || !utf8.ValidString(name) || len(name) > driver.MaxNameLength {
			panic("the suite made an invalid or duplicate name: " + quote(name))
		}
		req := a.request(name)
		req.TTL = e.atLeast(time.Minute) // on a slow server so many claims take longer than a TTL
		lease, err := a.try(req)
		e.check(err, "nobody has the name %s, which differs from all held names, yet a claim on it returned", quote(name))
		leases[name] = lease
	}
	// Another client finds each name held: the server did not map it to a different one.
	for _, name := range names {
		e.check(a.renewIfNeeded(leases[name]), "the claim on %s, one of %d names, was lost", quote(name), len(names))
		b.wantHeld(name, "the name "+quote(name)+" is held")
	}
	for _, name := range names {
		e.check(a.tryRelease(leases[name]), "the release of %s", quote(name))
	}
}

// quote quotes a name, shortened if it is long.
func quote(name string) string {
	const limit = 100
	if len(name) <= limit {
		return strconv.QuoteToASCII(name)
	}
	return strconv.QuoteToASCII(name[:limit/2]) + "…" + strconv.QuoteToASCII(name[len(name)-limit/4:])
}

// errorsCases test P10: the errors of a client.
var errorsCases = group("errors",
	quick("released", "P10 errors: after Release, Err is ErrReleased, another Release returns nil, and the lock is never lost", func(e *Env) {
		l := e.acquire(e.client(), e.name())
		ctx, cancel := l.Context(e.ctx)
		defer cancel()
		err := errors.Join(l.Err(), ctx.Err())
		e.require(err == nil && l.Valid(), "a lock that was just acquired must be valid, without an error; it says: %w", err)
		e.release(l)
		err = l.Err()
		e.require(errors.Is(err, lockport.ErrReleased) && !errors.Is(err, lockport.ErrLost) && !l.Valid(),
			"after Release, Valid is %t and Err returns: %w", l.Valid(), err)
		e.within(ctx.Done(), soon, "the lock's context has not ended %v after Release", soon)
		e.is(context.Cause(ctx), "the cause of the context's end must be ErrReleased; it is", lockport.ErrReleased)
		e.check(l.Release(e.ctx), "the second Release must return nil; it returned")
		e.notLost(l, "Release")
	}),
)

// notLost checks that a released lock does not count as lost.
func (e *Env) notLost(l *lockport.Lock, by string) {
	select {
	case <-l.Lost():
		e.failf("%s closed the channel Lost", by)
	default:
	}
}

// reentryCases test P11.
var reentryCases = group("reentry",
	quick("acquire", "P11 no silent re-entry: for a name that the same client holds, TryAcquire returns ErrHeld, and Acquire waits for its release", func(e *Env) {
		c := e.client()
		l := e.acquire(c, e.name())
		second := e.acquiring(c, l.Name())
		for range 5 {
			e.is(errOf(c.TryAcquire(e.ctx, l.Name())), "this client holds the name, yet TryAcquire was not ErrHeld but", lockport.ErrHeld)
			second.notYet(10*time.Millisecond, "the same client holds the name")
		}
		e.release(l)
		e.release(second.granted(soon, "the name was released"))
		again, err := c.TryAcquire(e.ctx, l.Name())
		e.check(err, "TryAcquire of a released name")
		e.release(again)
	}),
)
