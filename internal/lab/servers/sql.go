package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// startSQL starts a SQL server of kind k, ready when the administrator can log in: the server reserves a connection for that. open makes Admin.
func startSQL(ctx context.Context, k kind, open func(k *kind) (*sql.DB, error)) (_ *Server, err error) {
	if k.port, err = freePort(); err != nil {
		return nil, err
	}
	k.url.Host = hostPort(k.port)
	if k.Admin, err = open(&k); err != nil {
		return nil, err
	}
	k.Admin.SetMaxIdleConns(-1)
	k.ready = func(ctx context.Context, s *Server) error { return s.Admin.PingContext(ctx) }
	return start(ctx, k)
}

// Run runs statements as the administrator of a SQL server, as soon as the server serves: it may be recovering from a crash.
func (s *Server) Run(ctx context.Context, statements ...string) error {
	if err := s.Serves(ctx); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := s.Admin.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Texts returns the rows of the administrator's query for one text column.
func (s *Server) Texts(ctx context.Context, query string, args ...any) (all []string, err error) {
	rows, err := s.Admin.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close(), rows.Err()) }()
	for rows.Next() && err == nil {
		all = append(all, "")
		err = rows.Scan(&all[len(all)-1])
	}
	return all, err
}
