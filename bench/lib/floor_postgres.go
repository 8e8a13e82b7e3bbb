package lib

import (
	"context"
	"errors"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
)

func init() {
	register(Library{
		Name: "pg_advisory_lock", Family: "postgres", Kind: Floor, Module: pgModule,
		How:     "pg_try_advisory_lock, or where it waits pg_advisory_lock, and pg_advisory_unlock, with a connection for each hold and each waiter",
		Renewal: WithServer, Waits: true,
		MostWaiters: 100, WhyMost: "each takes a connection",
		Open: func(_ context.Context, c Config) (Locker, error) { return &advisory{Config: c}, nil },
	})
}

const pgModule = "github.com/jackc/pgx/v5"

type advisory struct {
	Config
	conns free[*pgx.Conn]
}

func (a *advisory) Acquire(ctx context.Context, name string) (Hold, error) {
	return a.take(ctx, name, "SELECT true FROM pg_advisory_lock($1)")
}

func (a *advisory) Try(ctx context.Context, name string) (Hold, error) {
	return a.take(ctx, name, "SELECT pg_try_advisory_lock($1)")
}

func (a *advisory) take(ctx context.Context, name, query string) (Hold, error) {
	conn, err := a.conns.take(func() (*pgx.Conn, error) { return pgx.Connect(ctx, a.URL) })
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	key := int64(h.Sum64())
	var got bool
	if err := conn.QueryRow(ctx, query, key).Scan(&got); err != nil {
		return nil, err // the connection may be broken, and is not used again
	}
	if !got {
		a.conns.give(conn)
		return nil, ErrHeld
	}
	return &advised{a, conn, key}, nil
}

func (a *advisory) Close() error {
	var errs []error
	for _, c := range a.conns.all {
		errs = append(errs, c.Close(context.Background()))
	}
	return errors.Join(errs...)
}

type advised struct {
	*advisory
	conn *pgx.Conn
	key  int64
}

func (h *advised) Release(ctx context.Context) error {
	var ok bool
	if err := h.conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", h.key).Scan(&ok); err != nil {
		return err
	}
	h.conns.give(h.conn)
	if !ok {
		return errors.New("it was not held")
	}
	return nil
}
