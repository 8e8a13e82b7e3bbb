package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockport/lockport/internal/sqlrow"
)

// link is a connection of the pool, as this package asks it. Statements are text without parameters, so that no setting of the client library matters
// and no statement is prepared.
type link struct{ *sql.Conn }

// exec carries out a statement without an answer.
func (l link) exec(ctx context.Context, query string) error {
	_, err := l.ExecContext(ctx, query)
	return err
}

// row asks for one row.
func (l link) row(ctx context.Context, query string) (sqlrow.Row, error) {
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
func (l link) rows(ctx context.Context, query string) ([]sqlrow.Row, error) {
	rows, err := l.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return sqlrow.All(rows)
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
