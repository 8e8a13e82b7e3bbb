package lockurl

import (
	"cmp"
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

// PgxAttempts returns the text of a pgx error in one line, with its attempts to connect.
func PgxAttempts(text string) string {
	failed, tries, ok := strings.Cut(text, "`:")
	if !ok || !strings.HasPrefix(failed, "failed to connect to `") {
		return strings.Join(strings.Fields(text), " ")
	}
	var said []string
	for line := range strings.Lines(strings.TrimSpace(tries)) {
		addr, what, _ := strings.Cut(strings.Join(strings.Fields(line), " "), ": ")
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
	return strings.Join(slices.Compact(said), "; ") // pgx tries TLS and plaintext
}

// PgxCause returns the attempt that decides, if err holds pgx's attempts to connect: the last one. But a server that wants TLS answers 28000 without
// it (PgBouncer 08P01), whatever happened to the attempt with TLS, and each host may have its own pg_hba.conf and certificate. Such refusals decide
// only if all refuse.
func PgxCause(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		joined, ok := e.(interface{ Unwrap() []error })
		if !ok || len(joined.Unwrap()) == 0 {
			continue
		}
		var refuses error
		for _, try := range slices.Backward(joined.Unwrap()) {
			var server interface{ SQLState() string }
			switch {
			case errors.As(try, &server) && server.SQLState() == "28000", strings.HasSuffix(try.Error(), "SSL required (SQLSTATE 08P01)"), BadCertificate(try):
				refuses = try
			case !strings.HasSuffix(try.Error(), "server refused TLS connection"):
				return try
			}
		}
		return cmp.Or(refuses, err)
	}
	return err
}
