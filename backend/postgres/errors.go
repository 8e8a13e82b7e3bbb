package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/session"
)

// poolerText is the remedy for a pooler that shares sessions.
const poolerText = "the connection goes through a pooler such as PgBouncer in transaction or statement mode, where session locks do not exclude: " +
	"connect to the server itself, set pool_mode = session and server_reset_query = DISCARD ALL, or keep the locks in a table (table+postgres:)"

// pgpoolText is the remedy for Pgpool-II.
const pgpoolText = "the connection goes through Pgpool-II, which holds answers back after notifications, and detaches the server when a session is ended: " +
	"connect to the server itself, or keep the locks in a table (table+postgres:)"

// hasCode reports whether err is the server's with this SQLSTATE.
func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// inOtherSession reports whether err is that of onSession, or concerns the prepared statements of another session.
func inOtherSession(err error) bool {
	return err != nil && strings.Contains(err.Error(), otherSession) || hasCode(err, "26000") || hasCode(err, "42P05")
}

// refusal returns the classified error of a statement that the session survived; nil: no error, or one that ended the session.
func refusal(c *pgx.Conn, err error) error {
	if _, ok := errors.AsType[*pgconn.PgError](err); !ok || c.IsClosed() {
		return nil
	}
	return classify(err)
}

// ended explains why a session has ended.
func ended(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Errorf("the server ended the session: %s (SQLSTATE %s)", session.OneLine(pg.Message), pg.Code)
	}
	return fmt.Errorf("the connection has ended: %w", err)
}

// refusals are SQLSTATEs, or their classes of two characters, that stay until somebody changes something, with the remedy. See
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
var refusals = map[string]string{
	"28":    "check the user name, the password, and the server's pg_hba.conf",
	"3D000": "create the database, or name another one",
	"42501": "grant the privilege, or use another role",
	"42P01": "restore it: it must not be dropped while in use",
	"2200H": "the sequence is used up",
	"42":    "",
	"0A":    "",
	"22":    "",
}

// classify gives an error of a session, or of opening one, the class that the server's answer implies, otherwise ErrUnavailable.
func classify(err error) error {
	var pg *pgconn.PgError
	cause := lockurl.PgxCause(err)
	switch {
	case errors.Is(err, errNoDeadlines): // without pgx's list of attempts
		return errNoDeadlines
	case session.Classified(err):
		return err
	case errors.As(cause, &pg):
		return classifyAnswer(pg)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w: %s", driver.ErrUnavailable, context.Canceled, lockurl.PgxAttempts(err.Error()))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w: %s", driver.ErrUnavailable, context.DeadlineExceeded, lockurl.PgxAttempts(err.Error()))
	case lockurl.BadCertificate(cause):
		return fmt.Errorf("%w: %s: check sslmode and the certificates", driver.ErrRefused, lockurl.PgxAttempts(err.Error()))
	}
	if reason, ok := lockurl.PgxReason(err.Error()); ok {
		return fmt.Errorf("%w: the sql.DB's connection string cannot be used: %s", driver.ErrRefused, session.OneLine(reason))
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, lockurl.PgxAttempts(err.Error()))
}

// classifyAnswer is classify for the server's own errors.
func classifyAnswer(pg *pgconn.PgError) error {
	text := fmt.Sprintf("%s (SQLSTATE %s)", session.OneLine(pg.Message), pg.Code)
	if pg.Code == "25006" { // read_only_sql_transaction
		return fmt.Errorf("%w (%s)", session.ErrReadOnly, text)
	}
	if pg.Code == "53200" {
		return fmt.Errorf("%w: %s: the server's lock table is full; raise max_locks_per_transaction", driver.ErrUnavailable, text)
	}
	if strings.Contains(pg.Message, "statement pooling") || inOtherSession(pg) {
		return fmt.Errorf("%w: %s: %s", driver.ErrRefused, text, poolerText)
	}
	for _, state := range []string{pg.Code, pg.Code[:min(2, len(pg.Code))]} {
		if remedy, ok := refusals[state]; ok {
			return fmt.Errorf("%w: %s", driver.ErrRefused, strings.TrimSuffix(text+": "+remedy, ": "))
		}
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, text)
}
