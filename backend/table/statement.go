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

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/sqlrow"
)

// text is a statement in the words of the dialect, which may have words in them, and with its placeholders.
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

// answer is what the server said to a statement: the rows that it returned, or how many it changed and the insert id.
type answer struct {
	rows        []sqlrow.Row
	changed, id int64
}

// run runs a statement by itself. An error has the class of what the server answered, or else class. A connection that turns out to be dead before the statement was sent
// is replaced, as database/sql does.
func (b *Backend) run(ctx context.Context, class error, statement string, args ...any) (a answer, err error) {
	for range 3 {
		conn, err := b.db.Conn(ctx)
		if err != nil { // nothing was sent
			return a, b.classify(ctx, err, driver.ErrUnavailable)
		}
		a, err = ask(ctx, conn, b.text(statement), args)
		_ = conn.Close() // back to the pool
		if !errors.Is(err, sqldriver.ErrBadConn) {
			return a, b.classify(ctx, err, class)
		}
	}
	return a, fmt.Errorf("%w: one connection after the other is dead", driver.ErrUnavailable)
}

func ask(ctx context.Context, conn *sql.Conn, text string, args []any) (a answer, err error) {
	if strings.HasPrefix(text, "SELECT") || strings.Contains(text, "RETURNING") {
		rows, err := conn.QueryContext(ctx, text, args...)
		if err == nil {
			a.rows, err = sqlrow.All(rows)
		}
		return a, err
	}
	result, err := conn.ExecContext(ctx, text, args...)
	if err == nil {
		a.id, _ = result.LastInsertId() // Postgres has none
		a.changed, err = result.RowsAffected()
	}
	return a, err
}

// refused are codes of errors that stay until somebody changes something, the first ones that there is no such table. https://www.sqlite.org/rescode.html,
// https://www.postgresql.org/docs/current/errcodes-appendix.html, https://mariadb.com/kb/en/mariadb-error-code-reference/
var refused = regexp.MustCompile("^(?:(42P01|1146|1)|(42|28|3D|22|0A)...|25006|26000|1044|1045|1046|1049|1054|1064|1130|1142|1143|1290|1698|1836|8|14|26)$")

// classify gives err the class of what the server answered, or else class.
func (b *Backend) classify(ctx context.Context, err, class error) error {
	if err == nil {
		return nil
	}
	line := strings.Join(strings.Fields(err.Error()), " ")
	if code := refused.FindStringSubmatch(codeOf(err)); code != nil {
		if class = driver.ErrRefused; code[1] != "" {
			line = fmt.Sprintf("make the table first: %s (%s)", b.text(b.dialect.schema), line)
		}
	} else if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: %w: %s", class, ended, line)
	}
	return fmt.Errorf("%w: %s", class, line)
}

// codeOf is the code of an error that the server answered. It knows the errors of the usual drivers by their form, so that a program is linked with its own driver alone:
// those for Postgres have a method SQLState, modernc.org/sqlite's has Code, go-sql-driver's has a field Number.
func codeOf(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		switch e := err.(type) {
		case interface{ SQLState() string }:
			return e.SQLState()
		case interface{ Code() int }:
			return strconv.Itoa(e.Code() & 0xff) // without what extends it
		}
		if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct && v.FieldByName("Number").IsValid() {
			return fmt.Sprint(v.FieldByName("Number"))
		}
	}
	return ""
}
