package conformance

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleNames = "P9 names: any UTF-8 of 1 to 1,024 bytes is a name, case-sensitive; distinct names never share a lock"

// namesCases are about P9.
var namesCases = group("names",
	full("distinct", ruleNames, func(e *Env) { distinct(e, oddNames(e.name())) }),
	full("whole", ruleNames+" (names of nothing but special characters)", func(e *Env) {
		// They cannot carry the mark of this run, so another run may have them for a moment.
		p := e.party()
		for _, name := range []string{".", "..", "/", "//", "../..", " ", "\t", "\n", "\x00", "%", "%00", "{", "}", "{}", "*", "?", "[",
			"\\", "'", "\"", "-", ":", "é", "锁"} {
			p.frees(name, 2*e.takeover(), "nobody has the name "+quote(name))
		}
	}),
	quick("quick", ruleNames, func(e *Env) {
		n := e.name()
		distinct(e, []string{n + "a", n + "A", n + "é", n + "e\u0301", n + "/a", n + "%2Fa", n + "a ", n + "锁",
			pad(n, 1023), pad(n, 1024), pad(n, 1023) + "y"})
	}),
	quick("invalid", "P9 names, P10 errors: an empty name, one of 1,025 bytes and one that is not UTF-8 are ErrInvalidName", func(e *Env) {
		c := e.client()
		for _, name := range []string{"", pad(e.name(), 1025), e.name() + "\xff", e.name() + "\xed\xa0\x80"} {
			e.is(errOf(c.Acquire(e.ctx, name)), "Acquire of "+quote(name)+" returned", lockport.ErrInvalidName)
			e.is(errOf(c.TryAcquire(e.ctx, name)), "TryAcquire of "+quote(name)+" returned", lockport.ErrInvalidName)
		}
	}),
)

// pad makes a name of so many bytes.
func pad(name string, bytes int) string { return name + strings.Repeat("x", bytes-len(name)) }

// oddNames are names that begin with base and that something between here and the server's memory may confuse.
func oddNames(base string) []string {
	names := []string{base} // a prefix of all others
	for _, s := range []string{
		"a", "A", "ａ", // case, full width
		"é", "e\u0301", "É", "E\u0301", // composed and decomposed
		"ß", "ss", "ẞ", "SS", "ı", "i", "İ", "I", "K", "k", "\u212a", // folding that changes lengths or is special to a language
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
	// As long as can be, different in the last byte only, in the first after the mark only, and full of what is encoded.
	names = append(names, pad(base, 1023)+"y", pad(base+"y", 1024), base+strings.Repeat("/", 1024-len(base)),
		base+strings.Repeat("%", 1024-len(base)), strings.ToValidUTF8((base + strings.Repeat("锁", 400))[:1024], ""))
	return names
}

// distinct claims all names at once, and then finds each of them held.
func distinct(e *Env, names []string) {
	a, b := e.party(), e.party()
	leases := make(map[string]driver.Lease)
	for _, name := range names {
		if leases[name] != nil || !utf8.ValidString(name) || len(name) > driver.MaxNameLength {
			panic("the suite made a bad name, or made it twice: " + quote(name))
		}
		req := a.request(name)
		if e.caps.FixedTTL == 0 {
			req.TTL = time.Minute // on a slow server so many take longer than a TTL
		}
		lease, err := a.try(req)
		e.check(err, "nobody has the name %s, which differs from all that are held, yet a claim on it was", quote(name))
		leases[name] = lease
	}
	// The other client finds them all: each is held by its own name, and not by one that the server made of it.
	for _, name := range names {
		e.check(a.renewsIfItMust(leases[name]), "the claim on %s, one of %d, was lost", quote(name), len(names))
		b.finds(name, "the name "+quote(name)+" is held")
	}
	for _, name := range names {
		e.check(a.releases(leases[name]), "the release of %s", quote(name))
	}
}

// quote quotes a name for people, shortened where it is long.
func quote(name string) string {
	const limit = 100
	if len(name) <= limit {
		return strconv.QuoteToASCII(name)
	}
	return strconv.QuoteToASCII(name[:limit/2]) + "…" + strconv.QuoteToASCII(name[len(name)-limit/4:])
}
