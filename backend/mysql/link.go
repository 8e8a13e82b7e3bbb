package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// link is a connection of the pool, as this package asks it. Statements are text without parameters, so that no setting of the client library matters
// and no statement is prepared.
type link struct{ *sql.Conn }

// row is one row of an answer.
type row []sql.NullString

// text is empty for NULL.
func (r row) text(column int) string { return r[column].String }

// number is 0 if the column is none.
func (r row) number(column int) int64 {
	n, _ := strconv.ParseInt(r.text(column), 10, 64)
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
		err = fmt.Errorf("the server answered with %d rows instead of one", len(rows))
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

// look lends f a connection of the pool to look at locks, in transactions of one statement. It is none of those that hold locks, and is closed afterwards.
func (s *server) look(ctx context.Context, f func(l link) error) error {
	l, err := s.connect(ctx)
	if err != nil {
		return classify(ctx, err)
	}
	defer l.discard()
	if _, err = l.learn(ctx); err == nil {
		err = l.exec(ctx, "SET SESSION autocommit=1,SESSION time_zone='+00:00'")
	}
	if err == nil {
		err = f(l)
	}
	return classify(ctx, err)
}
