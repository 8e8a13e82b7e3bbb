package table

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/sqlrow"
)

// text returns statement in the dialect's SQL, with its placeholders. Words may contain words.
func (b *Backend) text(statement string) string {
	if text, known := b.texts.Load(statement); known {
		return text.(string)
	}
	text := b.words.Replace(b.words.Replace(statement))
	for n := 1; b.dialect.numbered && strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", fmt.Sprint("$", n), 1)
	}
	b.texts.Store(statement, text)
	return text
}

// answer is the server's answer: the rows returned, or the number of rows changed and the insert id.
type answer struct {
	rows        []sqlrow.Row
	changed, id int64
	sent        time.Time // no later than the server began the statement; without the wait for a connection
}

// run executes a statement outside any transaction. An error has the class of the server's answer, or else class. A statement is sent once, and
// again only if the server undid it for a conflict.
func (b *Backend) run(ctx context.Context, class error, statement string, args ...any) (a answer, err error) {
	for n := 1; ; n++ {
		conn, err := b.connect(ctx)
		if err != nil { // this try sent nothing
			if most := b.db.Stats().MaxOpenConnections; most > 0 && err == ctx.Err() { // it has waited for one
				err = fmt.Errorf("all %d connections of the *sql.DB are in use or being opened: %w", most, err)
			}
			return a, b.classify(ctx, err, driver.ErrUnavailable)
		}
		sent := time.Now()
		a, err = b.ask(ctx, conn, statement, args)
		a.sent = sent
		code := codeOf(err)
		if readOnly.MatchString(code) {
			_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) // closes it: a new one may reach the new primary
		}
		_ = conn.Close() // back to the pool
		if n == 10 || !conflict.MatchString(code) {
			return a, b.classify(ctx, err, class)
		}
	}
}

// redialPause is how long after a failed dial no other is begun: hundreds of waiters would dial without end.
const redialPause = 50 * time.Millisecond

// failedDial is the last failure to open a connection.
type failedDial struct {
	at  time.Time
	err error
}

// connect takes a connection of db, an idle one or a new one. In the redialPause, it fails as the last dial did if there is no idle one.
func (b *Backend) connect(ctx context.Context) (*sql.Conn, error) {
	if last := b.failed.Load(); last != nil && time.Since(last.at) < redialPause && b.db.Stats().Idle == 0 {
		return nil, last.err
	}
	conn, err := b.db.Conn(ctx)
	if err != nil && ctx.Err() == nil {
		b.failed.Store(&failedDial{time.Now(), err})
	}
	return conn, err
}

func (b *Backend) ask(ctx context.Context, conn *sql.Conn, statement string, args []any) (a answer, err error) {
	if strings.HasPrefix(statement, "SELECT") || strings.HasPrefix(statement, "SHOW") || strings.Contains(statement, "RETURNING") { // not the table's name
		rows, err := conn.QueryContext(ctx, b.text(statement), args...)
		if err == nil {
			a.rows, err = sqlrow.All(rows)
		}
		return a, err
	}
	result, err := conn.ExecContext(ctx, b.text(statement), args...)
	if err == nil {
		a.id, _ = result.LastInsertId() // Postgres has none
		a.changed, err = result.RowsAffected()
	}
	return a, err
}

// refused matches codes of errors that last until somebody changes something; group 1 means a missing table. See
// https://www.sqlite.org/rescode.html, https://www.postgresql.org/docs/current/errcodes-appendix.html,
// https://mariadb.com/kb/en/mariadb-error-code-reference/
var refused = regexp.MustCompile("^(?:(42P01|1146|1)|(42|28|3D|22|0A)...|26000|1044|1045|1046|1048|1049|1054|1064|1130|1142|1143|1690|1698|8|14|26)$")

// These match codes of statements that certainly had no effect.
var (
	conflict = regexp.MustCompile("^(?:40001|40P01|1213|1020)$") // the server undid them: a serialization failure, a deadlock
	readOnly = regexp.MustCompile("^(?:25006|1290|1792|1836)$")  // it accepts no writes, as after a switchover
	busy     = regexp.MustCompile("^(?:55P03|1205|1226|1047)$")  // a lock was held for too long, a quota is used up, a Galera node is not ready
)

// classify gives err the class of the server's answer, or else class.
func (b *Backend) classify(ctx context.Context, err, class error) error {
	if err == nil {
		return nil
	}
	cause := lockurl.PgxCause(err)
	line, code := lockurl.PgxAttempts(err.Error()), codeOf(cause)
	if match := refused.FindStringSubmatch(code); match != nil {
		if class = driver.ErrRefused; match[1] != "" {
			line = fmt.Sprintf("%s (%s; create=true in a URL creates it. Is the Dialect right? A name without a schema depends on search_path, or on USE)", b.text("the table {table} is missing; create it: "+b.dialect.schema), line)
		} else if code == "1690" {
			line = "switch autocommit on (autocommit=1 in the DSN): nothing would be committed (" + line + ")"
		}
	} else if readOnly.MatchString(code) && class == driver.ErrUnavailable {
		class = driver.ErrRefused // Check found it
	} else if readOnly.MatchString(code) || conflict.MatchString(code) || busy.MatchString(code) {
		class = driver.ErrUnavailable
	} else if lockurl.BadCertificate(cause) {
		class, line = driver.ErrRefused, line+": check the certificates"
	} else if reason, ok := lockurl.PgxReason(line); ok {
		class, line = driver.ErrRefused, "cannot parse the DSN: "+reason
	} else if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: %w: %s", class, ended, line)
	}
	return fmt.Errorf("%w: %s", class, line)
}

// codeOf is the code of a server's error. It recognizes the usual drivers' errors by their form, so that a program links only its own driver.
// Those for Postgres have a method SQLState, modernc.org/sqlite has Code, go-sql-driver has a field Number, mattn/go-sqlite3 has Code.
func codeOf(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) {
		case interface{ SQLState() string }:
			return e.SQLState()
		case interface{ Code() int }:
			return strconv.Itoa(e.Code() & 0xff) // without the extended part
		}
		if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct {
			for _, field := range []string{"Number", "Code"} {
				if n := v.FieldByName(field); n.CanUint() || n.CanInt() {
					return fmt.Sprint(n.Convert(reflect.TypeFor[int]())) // without its own text
				}
			}
		}
	}
	return ""
}
