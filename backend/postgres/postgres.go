package postgres

import (
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// New returns a client for locks in pool's database. It does no I/O; closing it does not close pool. It connects with the pool's configuration
// (tracer, TLS, DialFunc …) and hooks (BeforeConnect, AfterConnect), but never takes a connection from it. OnNotification is not called.
func New(pool *pgxpool.Pool, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewBackend(pool, o) })
}

// NewBackend returns a backend for lockport.New, as New does.
func NewBackend(pool *pgxpool.Pool, o Options) (*Backend, error) {
	if pool == nil {
		return nil, errors.New("the pool is nil")
	}
	config := pool.Config() // it takes no connection from the pool: the goroutine with the last one may be waiting for a lock
	db := openDB(config.ConnConfig, config.BeforeConnect, config.AfterConnect)
	return newBackend(db, db.Close, o)
}

// NewDB returns a client for locks in db's database. db must use the driver of pgx (github.com/jackc/pgx/v5/stdlib), unwrapped. NewDB does no I/O;
// closing the client does not close db. Its connections, at most 1 + Options.Blockers, come from db: they count toward SetMaxOpenConns, which limits
// Blockers, and are closed after use. If db has an OnNotification of its own, that gets the notifications instead of lockport, and waiters beyond Blockers try only once
// a second.
func NewDB(db *sql.DB, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewDBBackend(db, o) })
}

// NewDBBackend returns a backend for lockport.New, as NewDB does.
func NewDBBackend(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, errors.New("the sql.DB is nil")
	}
	if _, ok := db.Driver().(*stdlib.Driver); !ok {
		return nil, notPgx(db.Driver())
	}
	return newBackend(db, nil, o)
}

// newBackend makes a backend. closeDB, if not nil, closes the db with it.
func newBackend(db *sql.DB, closeDB func() error, o Options) (*Backend, error) {
	layout, err := o.prepare()
	if err != nil {
		if closeDB != nil {
			_ = closeDB()
		}
		return nil, err
	}
	o.Blockers = session.Blockers(db, o.Blockers)
	s := &server{db: db, ttl: o.TTL, layout: layout, tokens: tokens{schema: o.Schema}, most: 1 + o.Blockers}
	return &Backend{server: s, engine: session.New(session.Options{
		Dial:         s.dial,
		TTL:          o.TTL,
		Blockers:     o.Blockers,
		Layout:       layout,
		Limit:        func() int { return int(s.limit.Load()) },
		Capabilities: capabilities(o.TTL),
		Look:         s.look,
		As:           leaseAs,
		Close:        closeDB,
	})}, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	*engine
	server *server
}

// engine is what session backends share.
type engine = session.Backend

const backendName = "postgres"

func capabilities(ttl time.Duration) driver.Capabilities {
	return driver.Capabilities{
		Backend:   backendName,
		Ends:      driver.EndsSession,
		MinTTL:    minTTL,
		FixedTTL:  ttl,
		Token:     driver.TokenData,
		Fair:      driver.FairNone,
		Wake:      driver.WakeNotify,
		Failover:  driver.FailoverUnsafe,
		Prompt:    true,
		Contended: true,
		Shared:    true,
		Permits:   true,
		// The server closes the connection of a session that ends, which wakes its reader.
		RemovalNotice: func(time.Duration) time.Duration { return time.Second },
	}
}

// Session tells Lock.As where a lock is held: the server's process (as in pg_stat_activity and pg_locks) and the key of the advisory lock.
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
	*s = Session{PID: int(c.(*conn).pid), Key: number(key)}
	return true
}
