package lib

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"

	"github.com/jackc/pgx/v5"
)

func init() {
	const how = "pg_try_advisory_lock, or where it waits pg_advisory_lock, and pg_advisory_unlock, "
	register(Library{
		Name: "pg_advisory_lock", Family: "postgres", Kind: Floor, Module: pgModule,
		How:     how + "with a connection for each hold and each waiter",
		Renewal: WithServer, Waits: true,
		MostWaiters: 100, Most: "each takes a connection",
		Open: func(_ context.Context, c Config) (Locker, error) { return &advisory{Config: c}, nil },
	})
	register(Library{
		Name: "the same, 16 connections", Family: "postgres", Kind: Floor, Module: pgModule, Only: []string{"own-"},
		How: how + "with one of 16 connections for each hold", Renewal: WithServer,
		Open: func(_ context.Context, c Config) (Locker, error) {
			return &advisory{Config: c, conns: free[*pgx.Conn]{slots: make(chan struct{}, 16)}}, nil
		},
	})
	register(Library{
		Name: "the same, one connection", Family: "postgres", Kind: Floor, Module: pgModule, Only: []string{"own-"},
		How: how + "one request after the other on one connection, which has all holds", Renewal: WithServer,
		Open: func(ctx context.Context, c Config) (Locker, error) {
			conn, err := pgx.Connect(ctx, c.URL)
			return &advisory{Config: c, one: conn}, err
		},
	})
}

const pgModule = "github.com/jackc/pgx/v5"

type advisory struct {
	Config
	conns free[*pgx.Conn]

	mu  sync.Mutex
	one *pgx.Conn // of all holds, if it is not nil
}

// ask asks one question on a connection.
func (a *advisory) ask(ctx context.Context, conn *pgx.Conn, query string, key int64) (yes bool, err error) {
	if conn == a.one {
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	err = conn.QueryRow(ctx, query, key).Scan(&yes)
	return yes, err
}

func (a *advisory) connection(ctx context.Context) (*pgx.Conn, error) {
	if a.one != nil {
		return a.one, nil
	}
	return a.conns.take(func() (*pgx.Conn, error) { return pgx.Connect(ctx, a.URL) })
}

func (a *advisory) give(conn *pgx.Conn) {
	if conn != a.one {
		a.conns.give(conn)
	}
}

func (a *advisory) Acquire(ctx context.Context, name string) (Hold, error) {
	return a.take(ctx, name, "SELECT true FROM pg_advisory_lock($1)")
}

func (a *advisory) Try(ctx context.Context, name string) (Hold, error) {
	return a.take(ctx, name, "SELECT pg_try_advisory_lock($1)")
}

func (a *advisory) take(ctx context.Context, name, query string) (Hold, error) {
	conn, err := a.connection(ctx)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	key := int64(h.Sum64())
	got, err := a.ask(ctx, conn, query, key)
	if err != nil {
		return nil, err // the connection may be broken, and is not used again
	}
	if !got {
		a.give(conn)
		return nil, ErrHeld
	}
	return &advised{a, conn, key}, nil
}

func (a *advisory) Close() error {
	var errs []error
	if a.one != nil {
		errs = append(errs, a.one.Close(context.Background()))
	}
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
	ok, err := h.ask(ctx, h.conn, "SELECT pg_advisory_unlock($1)", h.key)
	if err != nil {
		return err
	}
	h.give(h.conn)
	if !ok {
		return errors.New("it was not held")
	}
	return nil
}
