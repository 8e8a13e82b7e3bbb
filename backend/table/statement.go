package table

import (
	"cmp"
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
)

// args are the arguments of a statement by their names: one value each, or the values of a list.
type args map[string][]any

// answer is what the server said to a statement: the rows that it returned, or how many it changed and the insert id.
type answer struct {
	rows        [][]string
	changed, id int64
}

// number is a number of the server's.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// run runs a statement by itself. An error has the class of what the server answered, or else class. A connection that turns out to be dead before the statement was sent
// is replaced, as database/sql does.
func (b *Backend) run(ctx context.Context, class error, statement string, named args) (a answer, err error) {
	text, values := b.bind(statement, named)
	for range 3 {
		var conn *sql.Conn
		if conn, err = b.db.Conn(ctx); err != nil {
			class = driver.ErrUnavailable // nothing was sent
			break
		}
		a, err = ask(ctx, conn, text, values)
		_ = conn.Close() // back to the pool
		if !errors.Is(err, sqldriver.ErrBadConn) {
			break
		}
	}
	if err != nil {
		err = b.classify(ctx, err, class)
	}
	return a, err
}

func ask(ctx context.Context, conn *sql.Conn, text string, values []any) (a answer, err error) {
	if !strings.HasPrefix(text, "SELECT") && !strings.Contains(text, "RETURNING") {
		result, err := conn.ExecContext(ctx, text, values...)
		if err == nil {
			a.id, _ = result.LastInsertId() // Postgres has none
			a.changed, err = result.RowsAffected()
		}
		return a, err
	}
	rows, err := conn.QueryContext(ctx, text, values...)
	if err != nil {
		return a, err
	}
	columns, err := rows.Columns()
	for err == nil && rows.Next() { // to the end, where the server reports what went wrong
		row, places := make([]string, len(columns)), make([]any, len(columns))
		for i := range row {
			places[i] = &row[i]
		}
		err = rows.Scan(places...)
		a.rows = append(a.rows, row)
	}
	return a, cmp.Or(err, rows.Err(), rows.Close())
}

// text is a statement in the words of the dialect, which may have words in them.
func (b *Backend) text(statement string) string { return b.words.Replace(b.words.Replace(statement)) }

var placeholder = regexp.MustCompile(`:[a-z]+`)

// bind puts words and placeholders into a statement, and returns the arguments in their order.
func (b *Backend) bind(statement string, named args) (text string, values []any) {
	text = placeholder.ReplaceAllStringFunc(b.text(statement), func(name string) string {
		var marks []string
		for _, value := range named[name[1:]] {
			values = append(values, value)
			marks = append(marks, strings.ReplaceAll(b.dialect.mark, "n", strconv.Itoa(len(values))))
		}
		return strings.Join(marks, ", ")
	})
	return text, values
}

// Codes of errors: that there is no such table, and that something else is wrong until somebody changes it. https://www.sqlite.org/rescode.html,
// https://www.postgresql.org/docs/current/errcodes-appendix.html, https://mariadb.com/kb/en/mariadb-error-code-reference/
var (
	missing = regexp.MustCompile("^(42P01|1146|1)$")
	refused = regexp.MustCompile("^((42|28|3D|22|0A)...|25006|26000|1044|1045|1046|1049|1054|1064|1130|1142|1143|1290|1698|1836|8|14|26)$")
)

// classify gives err the class of what the server answered, or else class.
func (b *Backend) classify(ctx context.Context, err, class error) error {
	line, code := strings.Join(strings.Fields(err.Error()), " "), codeOf(err)
	switch ended := ctx.Err(); {
	case missing.MatchString(code):
		return fmt.Errorf("%w: make the table first: %s (%s)", driver.ErrRefused, b.text(b.dialect.schema), line)
	case refused.MatchString(code):
		return fmt.Errorf("%w: %s", driver.ErrRefused, line)
	case ended != nil:
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
