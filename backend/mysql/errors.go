package mysql

import (
	"context"
	"errors"
	"fmt"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/session"
)

// Error numbers with a meaning of their own. https://mariadb.com/kb/en/mariadb-error-code-reference/
const (
	errNoTable      = 1146
	errRowLockWait  = 1205
	errDeadlock     = 1213
	errNoSuchThread = 1094
	errTooLong      = 1969 // max_statement_time
)

const (
	grantTable = "grant the user SELECT, INSERT, UPDATE, DELETE and CREATE on the database, or do without tokens"
	whichOne   = "is it MariaDB or MySQL?"
)

// refusals are server errors for which trying again is useless, with the remedy. All others are driver.ErrUnavailable, except errNoSuchThread (see
// classify). A statement that fails with one of them had no effect.
var refusals = map[uint16]string{
	1045: "the user name or the password is wrong, or the user needs TLS: check both, or set tls=true",
	1698: "check the user's name, password and authentication plugin",
	1044: "the user may not use this database: " + grantTable,
	1046: "the connections select no database: name one in the DSN, name the table with its database, or do without tokens",
	1049: "there is no such database: create it, or name another",
	1129: "the server has blocked this host after errors: flush its hosts",
	1130: "create a user for this host",
	1820: "set a new password", 1862: "set a new password",
	3118: "unlock the account", 4151: "unlock the account",
	3159: "set tls=true",
	1142: "the user may not use the table of fencing tokens: " + grantTable, 1143: grantTable,
	1054:       "the table of fencing tokens has unexpected columns: name another table, or drop this one",
	errNoTable: "the table of fencing tokens is missing: " + grantTable,
	1095:       "this user may not end the session: use one with the privilege CONNECTION ADMIN",
	1227:       "grant the user that privilege",
	1064:       whichOne, 1193: whichOne, 1235: whichOne, 1251: whichOne, 1305: whichOne,
}

// number is the number of the server's error; 0: err is none.
func number(err error) uint16 {
	var answer *gomysql.MySQLError
	if errors.As(err, &answer) {
		return answer.Number
	}
	return 0
}

// classify gives an error of a request without effect a class of the driver.
func classify(ctx context.Context, err error) error {
	if session.Classified(err) {
		return err
	}
	n, line := number(err), driver.OneLine(err)
	switch remedy := refusals[n]; {
	case remedy != "":
		return fmt.Errorf("%w: %s (%w)", driver.ErrRefused, remedy, line)
	case n == 1290 || n == 1792 || n == 1836 || n == 1874: // these, but for the last, as go-sql-driver's rejectReadOnly
		return fmt.Errorf("%w (%w)", session.ErrReadOnly, line)
	case n == errNoSuchThread:
		return fmt.Errorf("%w: the session has ended (%w)", driver.ErrLost, line)
	case n == errRowLockWait, n == errTooLong:
		return fmt.Errorf("%w: the table of fencing tokens is locked by another session (a backup, a transaction) (%w)", driver.ErrUnavailable, line)
	case n != 0:
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, line)
	}
	for _, r := range []error{gomysql.ErrNoTLS, gomysql.ErrCleartextPassword, gomysql.ErrNativePassword, gomysql.ErrOldPassword,
		gomysql.ErrUnknownPlugin, gomysql.ErrOldProtocol} {
		if errors.Is(err, r) {
			return fmt.Errorf("%w: %w", driver.ErrRefused, line)
		}
	}
	if lockurl.BadCertificate(err) {
		return fmt.Errorf("%w: TLS with the server fails (%w)", driver.ErrRefused, line)
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: the server could not be asked in time: %w", driver.ErrUnavailable, ended)
	}
	return fmt.Errorf("%w: no MySQL or MariaDB answers: check that it runs, the address, and the client's certificate if it has one (%w)", driver.ErrUnavailable, line)
}
