package lib

import (
	"context"
	"database/sql"
	"hash/fnv"
	"net/url"
	"strings"
	"sync"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

func init() {
	floor := func(name, family, module, how string, open func(context.Context, Config) (Locker, error)) {
		register(Library{
			Name: name, Family: family, Kind: Floor, Module: module, How: how + ", with a connection for each hold and each waiter",
			Renewal: WithServer, Waits: true, MostWaiters: 100, WhyMost: "each takes a connection", Open: open,
		})
	}
	floor("pg_advisory_lock", "postgres", "github.com/jackc/pgx/v5",
		"pg_try_advisory_lock, or where it waits pg_advisory_lock, and pg_advisory_unlock", openAdvisory)
	floor("GET_LOCK", "mysql", "github.com/go-sql-driver/mysql", "GET_LOCK and RELEASE_LOCK", openNamed)
}

// free are connections that nobody uses at the moment. Each hold has one to itself, so that there are as many as there were holds and waiters at a time. Safe
// for concurrent use.
type free[T any] struct {
	open func(ctx context.Context) (T, error)

	mu   sync.Mutex
	idle []T
	all  []T
}

// take returns a free connection, or else a new one.
func (f *free[T]) take(ctx context.Context) (T, error) {
	f.mu.Lock()
	if n := len(f.idle); n > 0 {
		defer f.mu.Unlock()
		t := f.idle[n-1]
		f.idle = f.idle[:n-1]
		return t, nil
	}
	f.mu.Unlock()
	t, err := f.open(ctx)
	if err == nil {
		f.mu.Lock()
		f.all = append(f.all, t)
		f.mu.Unlock()
	}
	return t, err
}

func (f *free[T]) give(t T) {
	f.mu.Lock()
	f.idle = append(f.idle, t)
	f.mu.Unlock()
}

// taken takes a lock on a connection of its own, with functions that ask whether it was granted, and whether it was held. A connection with an error may be
// broken, and is not used again.
func (f *free[T]) taken(ctx context.Context, lock, unlock func(ctx context.Context, conn T) (bool, error)) (release, error) {
	conn, err := f.take(ctx)
	if err != nil {
		return nil, err
	}
	got, err := lock(ctx, conn)
	if err != nil {
		return nil, err
	}
	if !got {
		f.give(conn)
		return nil, ErrHeld
	}
	return func(ctx context.Context) error {
		held, err := unlock(ctx, conn)
		if err == nil {
			f.give(conn)
		}
		return unlessHeld(held, err)
	}, nil
}

func openAdvisory(_ context.Context, c Config) (Locker, error) {
	conns := &free[*pgx.Conn]{open: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, c.URL) }}
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		ask := func(query string) func(context.Context, *pgx.Conn) (bool, error) {
			return func(ctx context.Context, conn *pgx.Conn) (yes bool, err error) {
				err = conn.QueryRow(ctx, query, int64(h.Sum64())).Scan(&yes)
				return yes, err
			}
		}
		query := "SELECT pg_try_advisory_lock($1)"
		if wait {
			query = "SELECT true FROM pg_advisory_lock($1)"
		}
		return conns.taken(ctx, ask(query), ask("SELECT pg_advisory_unlock($1)"))
	}, func() error {
		for _, conn := range conns.all {
			_ = conn.Close(context.Background()) // the server may have ended it
		}
		return nil
	}}, nil
}

func openNamed(_ context.Context, c Config) (Locker, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	// Parameters are put into the text: a statement that is prepared for each call would be two requests.
	dsn := u.User.Username() + ":" + password + "@tcp(" + u.Host + ")/" + strings.TrimPrefix(u.Path, "/") + "?interpolateParams=true"
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	conns := &free[*sql.Conn]{open: db.Conn}
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		ask := func(query string, args ...any) func(context.Context, *sql.Conn) (bool, error) {
			return func(ctx context.Context, conn *sql.Conn) (bool, error) {
				var yes sql.NullInt64
				err := conn.QueryRowContext(ctx, query, args...).Scan(&yes)
				return yes.Int64 == 1, err
			}
		}
		seconds := 0
		if wait {
			seconds = 3600 // as good as for ever
		}
		return conns.taken(ctx, ask("SELECT GET_LOCK(?, ?)", name, seconds), ask("SELECT RELEASE_LOCK(?)", name))
	}, db.Close}, nil
}
