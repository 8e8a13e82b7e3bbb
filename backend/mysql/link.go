package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/lockport/lockport/internal/sqlrow"
)

// link is a connection of the pool. Its statements are text without parameters, so no setting of the client library matters, and no statement is
// prepared.
type link struct{ *sql.Conn }

// exec executes a statement without a result.
func (l link) exec(ctx context.Context, query string) error {
	_, err := l.ExecContext(ctx, query)
	return err
}

// row runs a query for one row.
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

// rows runs a query. With an error, nothing or not all of the result has arrived.
func (l link) rows(ctx context.Context, query string) ([]sqlrow.Row, error) {
	rows, err := l.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return sqlrow.All(rows)
}
