package lockurl

import (
	"errors"
	"slices"
	"strings"
)

// PgxReason returns why pgx cannot use a connection string, from the text of its error. The text shows that string, perhaps with a password, and may
// quote it again in the reason. false: the error is another one.
func PgxReason(text string) (reason string, ok bool) {
	const start, end = "cannot parse `", "`: "
	if !strings.HasPrefix(text, start) {
		return "", false
	}
	reason = text[strings.LastIndex(text, end)+len(end):]
	if said, quoted, _ := strings.Cut(reason, " ("); strings.ContainsAny(quoted, "\"@=") && !strings.HasPrefix(quoted, `both "sslcert" and`) {
		reason = said
	}
	return reason, true
}

// PgxAttempts returns the text of a pgx error in one line, with one attempt for each address.
func PgxAttempts(text string) string {
	failed, tries, ok := strings.Cut(text, "`:")
	if !ok || !strings.HasPrefix(failed, "failed to connect to `") {
		return strings.Join(strings.Fields(text), " ")
	}
	var all []error
	for line := range strings.Lines(strings.TrimSpace(tries)) {
		all = append(all, errors.New(strings.Join(strings.Fields(line), " ")))
	}
	var said []string
	for _, try := range telling(all) {
		addr, what, _ := strings.Cut(try.Error(), ": ")
		switch {
		case strings.HasPrefix(what, "dial error: timeout: "):
			what = "no connection in time"
		case strings.HasSuffix(what, "EOF"), strings.HasSuffix(what, "timeout: context deadline exceeded"):
			what = "no answer: is it a Postgres server?"
		case strings.Contains(what, "received unexpected message"): // pgx's text goes on with "%!w(<nil>)"
			what = "is it a Postgres server?"
		}
		said = append(said, addr+": "+what)
	}
	return strings.Join(said, "; ")
}

// PgxCause returns the attempt that decides, if err holds pgx's attempts to connect. It is a refusal only if each host refuses, as one with its own
// certificate or pg_hba.conf (28000) may, or if the last one, at which pgx stops, refuses for the cluster: a password, a database. A host may refuse
// although not all its addresses accept connections.
func PgxCause(err error, refusal func(error) bool) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		joined, ok := e.(interface{ Unwrap() []error })
		if !ok || len(joined.Unwrap()) == 0 {
			continue
		}
		kept := telling(joined.Unwrap())
		decides := kept[len(kept)-1]
		var server interface{ SQLState() string }
		if errors.As(decides, &server) && server.SQLState() != "28000" {
			return decides
		}
		for _, try := range slices.Backward(kept) {
			refuses := func(other error) bool { return hostOf(other) == hostOf(try) && refusal(other) }
			if refusal(try) {
				decides = try
			} else if !strings.Contains(try.Error(), ": dial error: ") || !slices.ContainsFunc(kept, refuses) {
				return try
			}
		}
		return decides
	}
	return err
}

// hostOf returns port and host of an attempt, whose text begins with "address:port (host): ".
func hostOf(try error) string {
	address, host, _ := strings.Cut(try.Error(), " (")
	host, _, _ = strings.Cut(host, "): ")
	return address[strings.LastIndex(address, ":")+1:] + " " + host
}

// telling keeps the attempt at each address that tells most about it: pgx tries TLS and plaintext. The last does, but 28000 may only mean that the
// server does not admit this kind, as pgx stops at a 28000 over TLS, and a server without TLS says nothing else.
func telling(tries []error) (kept []error) {
	weight := func(try error) int {
		switch text := try.Error(); {
		case strings.HasSuffix(text, "server refused TLS connection"):
			return 0
		case strings.HasSuffix(text, "(SQLSTATE 28000)"), strings.HasSuffix(text, "SSL required (SQLSTATE 08P01)"): // the latter is PgBouncer's
			return 1
		}
		return 2
	}
	for _, try := range tries {
		addr, _, _ := strings.Cut(try.Error(), ": ")
		same := func(other error) bool { return strings.HasPrefix(other.Error(), addr+": ") }
		i := slices.IndexFunc(kept, same)
		switch {
		case i >= 0 && weight(kept[i]) > weight(try):
			continue
		case i >= 0:
			kept = slices.Delete(kept, i, i+1)
		}
		kept = append(kept, try)
	}
	return kept
}
