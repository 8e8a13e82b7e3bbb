package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
)

// poolerText says what to do about a pooler that takes sessions apart.
const poolerText = "a pooler such as PgBouncer in transaction or statement mode is in between, where session locks do not exclude: " +
	"connect to the server itself, or set pool_mode = session for this database"

// lockTimeout says that a statement has waited for a lock for lock_timeout.
func lockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// refusal is the error of a statement, classified, if the session lives on; nil: err is none, or has ended the session.
func refusal(c *pgx.Conn, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || c.IsClosed() {
		return nil
	}
	return classify(err)
}

// ended says why a session has ended.
func ended(err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pg):
		return fmt.Errorf("the server ended the session: %s (SQLSTATE %s)", oneLine(pg.Message), pg.Code)
	}
	return fmt.Errorf("the connection has ended: %w", err)
}

// refusals are the SQLSTATEs, or their classes of two characters, that stay until somebody changes something, with what to do. See
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
var refusals = map[string]string{
	"28":    "check the user name, the password, and the server's pg_hba.conf",
	"3D000": "create the database, or name another one",
	"42501": "grant the privilege, or use another role",
	"42P01": "restore it: it must not be dropped while it is used",
	"2200H": "it has been used up",
	"26000": poolerText,
	"25006": "connect to the primary",
	"42":    "",
	"0A":    "",
	"22":    "",
}

// classify gives an error of a session or of its beginning its class: what the server said it means, or unavailable.
func classify(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return classifyNetwork(err)
	}
	text := fmt.Sprintf("%s (SQLSTATE %s)", oneLine(pg.Message), pg.Code)
	switch pg.Code {
	case "53200":
		return fmt.Errorf("%w: %s: the server's lock table is full; raise max_locks_per_transaction", driver.ErrUnavailable, text)
	}
	if strings.Contains(pg.Message, "statement pooling") {
		return fmt.Errorf("%w: %s: %s", driver.ErrRefused, text, poolerText)
	}
	if refused(pg.Code) {
		if remedy := refusals[pg.Code] + refusals[pg.Code[:2]]; remedy != "" {
			text += ": " + remedy
		}
		return fmt.Errorf("%w: %s", driver.ErrRefused, text)
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, text)
}

// refused says that an error with this SQLSTATE stays until somebody changes something.
func refused(state string) bool {
	_, code := refusals[state]
	_, class := refusals[state[:min(2, len(state))]]
	return code || class
}

// classifyNetwork is classify for what no server said.
func classifyNetwork(err error) error {
	var connect *pgconn.ConnectError
	var certificate *tls.CertificateVerificationError
	switch {
	case slices.ContainsFunc([]error{driver.ErrRefused, driver.ErrUnavailable, driver.ErrLost, driver.ErrUnknown}, func(class error) bool { return errors.Is(err, class) }):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case errors.As(err, &certificate):
		return fmt.Errorf("%w: %s: check sslmode and the certificates", driver.ErrRefused, attempts(err))
	case errors.As(err, &connect) && strings.HasSuffix(attempts(err), noTLS):
		return fmt.Errorf("%w: %s: check sslmode", driver.ErrRefused, attempts(err))
	case errors.As(err, &connect):
		return fmt.Errorf("%w: cannot connect: %s", driver.ErrUnavailable, attempts(err))
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, oneLine(err.Error()))
}

// noTLS is how pgx says that the server does not speak TLS.
const noTLS = "server refused TLS connection"

// attempts tells of the attempts to connect, in one line: of those without TLS alone, where both were made (sslmode=prefer) and the server has none.
func attempts(err error) string {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = connect.Unwrap()
	}
	var telling []string
	lines := strings.Split(err.Error(), "\n")
	for _, line := range lines {
		if !strings.HasSuffix(line, noTLS) && !slices.Contains(telling, line) {
			telling = append(telling, line)
		}
	}
	if len(telling) == 0 {
		telling = lines[:1]
	}
	return oneLine(strings.Join(telling, "; "))
}

// oneLine puts text into one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
