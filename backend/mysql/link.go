package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
)

// link is a connection of the pool, as this package asks it. Statements are text without parameters, so that no setting of the client library matters
// and no statement is prepared.
type link struct{ *sql.Conn }

// row is one row of an answer: the text of each column.
type row []sql.NullString

func (r row) text(column int) string { return r[column].String }
func (r row) isNull(column int) bool { return !r[column].Valid }

// isOne reports whether the server said 1, not 0 and not NULL.
func (r row) isOne(column int) bool { return r[column].String == "1" }

// number is 0 if the column is none.
func (r row) number(column int) int64 {
	n, _ := strconv.ParseInt(r[column].String, 10, 64)
	return n
}

// exec carries out a statement without an answer.
func (l link) exec(ctx context.Context, query string) error {
	_, err := l.ExecContext(ctx, query)
	return err
}

// row asks for one row.
func (l link) row(ctx context.Context, query string) (row, error) {
	rows, err := l.rows(ctx, query)
	if err == nil && len(rows) != 1 {
		err = errors.New("the server answered with " + strconv.Itoa(len(rows)) + " rows instead of one")
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// rows asks a question. An error says that nothing, or not all, of the answer has come.
func (l link) rows(ctx context.Context, query string) (all []row, err error) {
	rows, err := l.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	places := make([]any, len(columns))
	for rows.Next() {
		r := make(row, len(columns))
		for i := range r {
			places[i] = &r[i]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// look lends f a connection of the pool to look at locks. It is none of those that hold locks, keeps its settings, and goes back to the pool. ctx bounds all.
func (s *server) look(ctx context.Context, f func(l link) error) error {
	l, err := s.connect(ctx)
	if err != nil {
		return classify(ctx, err)
	}
	defer func() { _ = l.Close() }()
	if _, err := l.learn(ctx); err != nil {
		return classify(ctx, err)
	}
	return classify(ctx, f(l))
}
