package table

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/lockport/lockport/driver"
)

// args are the arguments of a statement by their names. A []any is a list.
type args map[string]any

// answer is what the server said to a statement.
type answer struct {
	rows        [][]string
	changed, id int64 // rows that were changed, and the insert id
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
	return a, b.classify(ctx, err, class)
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
	return a, errors.Join(err, rows.Err(), rows.Close())
}

var placeholder = regexp.MustCompile(`:[a-z]+\b`)

// text is a statement in the words of the dialect, which may have words in them.
func (b *Backend) text(statement string) string { return b.words.Replace(b.words.Replace(statement)) }

// bind puts words and placeholders into a statement, and returns the arguments in their order.
func (b *Backend) bind(statement string, named args) (text string, values []any) {
	text = placeholder.ReplaceAllStringFunc(b.text(statement), func(name string) string {
		list, ok := named[name[1:]].([]any)
		switch value := named[name[1:]]; {
		case value == nil:
			return name // a cast of Postgres: "::text"
		case !ok:
			list = []any{value}
		}
		var marks []string
		for _, value := range list {
			values, marks = append(values, value), append(marks, "?")
			if b.dialect == &dialects[Postgres] {
				marks[len(marks)-1] = fmt.Sprint("$", len(values))
			}
		}
		return strings.Join(marks, ", ")
	})
	return text, values
}

// classify gives err the class of what the server answered, or else class.
func (b *Backend) classify(ctx context.Context, err, class error) error {
	if err == nil {
		return nil
	}
	line, code := strings.Join(strings.Fields(err.Error()), " "), codeOf(err)
	is := func(code string, list ...string) bool {
		return slices.Contains(list, code) || len(code) == 5 && slices.Contains(list, code[:2])
	}
	switch refused := strings.Fields(b.dialect.refused); {
	case code == refused[0]:
		return fmt.Errorf("%w: make the table first: %s (%s)", driver.ErrRefused, b.text(schema), line)
	case is(code, refused...):
		return fmt.Errorf("%w: %s", driver.ErrRefused, line)
	case is(code, strings.Fields(b.dialect.undone)...):
		class = driver.ErrUnavailable
	}
	if ended := ctx.Err(); ended != nil {
		return fmt.Errorf("%w: %w: %s", class, ended, line)
	}
	return fmt.Errorf("%w: %s", class, line)
}

// codeOf is the code of an error that the server answered. It knows the errors of the usual drivers by their form, so that a program is linked with its own driver alone:
// those for Postgres have a method SQLState, modernc.org/sqlite's has Code, go-sql-driver's has a field Number.
func codeOf(err error) string {
	var postgres interface{ SQLState() string }
	if errors.As(err, &postgres) {
		return postgres.SQLState()
	}
	var sqlite interface{ Code() int }
	if errors.As(err, &sqlite) {
		return fmt.Sprint(sqlite.Code() & 0xff) // without what extends it
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if v := reflect.Indirect(reflect.ValueOf(err)); v.Kind() == reflect.Struct && v.FieldByName("Number").CanUint() {
			return fmt.Sprint(v.FieldByName("Number").Uint())
		}
	}
	return ""
}
