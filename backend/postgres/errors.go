package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/driver"
)

// errLockTimeout is an error of the server after lock_timeout.
var errLockTimeout = errors.New("lock_timeout")

// poolerText says what to do about a pooler that takes sessions apart.
const poolerText = "a pooler such as PgBouncer in transaction or statement mode is in between, where session locks do not exclude: " +
	"connect to the server itself, or set pool_mode = session for this database"

// serverError is what the server said, in its class.
func serverError(m *pgproto3.ErrorResponse) error {
	return classify(&pgconn.PgError{
		Severity: m.Severity, SeverityUnlocalized: m.SeverityUnlocalized, Code: m.Code, Message: m.Message, Detail: m.Detail, Hint: m.Hint,
	})
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
	case "55P03":
		return fmt.Errorf("%w: %w: %s", driver.ErrUnavailable, errLockTimeout, text)
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

// fatal says that the server ends the session with this message.
func fatal(m *pgproto3.ErrorResponse) bool {
	severity := m.SeverityUnlocalized
	if severity == "" {
		severity = m.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}
