package postgres

import (
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// New makes a client of lockport on the database of pool. It does no I/O, and closing it does not close pool. It connects as pool does, with its configuration
// (tracer, TLS, DialFunc …) and hooks (BeforeConnect, AfterConnect), but never takes a connection from it. OnNotification is not called.
func New(pool *pgxpool.Pool, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewBackend(pool, o) })
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(pool *pgxpool.Pool, o Options) (*Backend, error) {
	if pool == nil {
		return nil, errors.New("the pool is nil")
	}
	return newBackend(fromPool(pool), o)
}

// NewDB makes a client of lockport on the database of db, whose driver must be that of pgx (github.com/jackc/pgx/v5/stdlib), not wrapped by another. It does no
// I/O, and closing it does not close db. Its connections, 1 + Options.Blockers at most, are taken out of db: they count among SetMaxOpenConns, and are closed
// when they have served. A db with an OnNotification of its own hears what ours are told: then waiters beyond Blockers look once a second.
func NewDB(db *sql.DB, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewDBBackend(db, o) })
}

// NewDBBackend makes a backend for lockport.New, as NewDB does.
func NewDBBackend(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, errors.New("the sql.DB is nil")
	}
	if _, ok := db.Driver().(*stdlib.Driver); !ok {
		return nil, notPgx(db.Driver())
	}
	return newBackend(fromDB(db), o)
}

func newBackend(open opener, o Options) (*Backend, error) {
	where, err := o.prepare()
	if err != nil {
		return nil, err
	}
	s := &server{open: open, ttl: o.TTL, tokens: tokens{schema: o.Schema}}
	return &Backend{
		engine: session.New(s, session.Options{
			TTL:          o.TTL,
			Blockers:     o.Blockers,
			Layout:       where.sessionKey,
			Permit:       permit,
			Capabilities: capabilities(o.TTL),
			As:           leaseAs,
		}),
		server:   s,
		layout:   where,
		blockers: o.Blockers,
	}, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	engine
	server   *server
	layout   layout
	blockers int
}

// engine is what all backends of sessions have in common. An interface: what else session.Backend exports is no part of Backend.
type engine interface {
	driver.Backend
	driver.Waiter
	driver.Notifier
	driver.BatchRenewer
}

const backendName = "postgres"

// removalNotice is within what time the end of a session is told: the server closes the connection, whose reader is woken.
const removalNotice = time.Second

func capabilities(ttl time.Duration) driver.Capabilities {
	return driver.Capabilities{
		Backend:       backendName,
		Ends:          driver.EndsSession,
		MinTTL:        minTTL,
		FixedTTL:      ttl,
		Token:         driver.TokenData,
		Fair:          driver.FairNone,
		Wake:          driver.WakeNotify,
		Failover:      driver.FailoverUnsafe,
		Prompt:        true,
		Contended:     true,
		Shared:        true,
		Permits:       true,
		RemovalNotice: func(time.Duration) time.Duration { return removalNotice },
	}
}

// Session is where a lock is held, for Lock.As: the process of the server (as in pg_stat_activity and pg_locks) and the key of the advisory
// lock.
type Session struct {
	PID int
	Key int64
}

// leaseAs implements session.Options.As.
func leaseAs(c session.Conn, key session.Key, target any) bool {
	s, ok := target.(*Session)
	if !ok {
		return false
	}
	n, err := strconv.ParseInt(string(key), 10, 64)
	if err == nil {
		*s = Session{PID: int(c.(*conn).pid), Key: n}
	}
	return err == nil
}
