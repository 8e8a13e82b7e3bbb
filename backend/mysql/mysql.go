package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// New returns a client for locks on db's server. Its sessions are connections of db (sql.DB.Conn), so wrapped drivers, hooks and credentials apply to
// them: one from the first use on, and at most Options.Blockers more while names are waited for. A session's connection never goes back to db; it is
// closed when the session ends. New does no I/O. Close ends the sessions and leaves db open.
func New(db *sql.DB, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewBackend(db, o) })
}

// NewBackend returns a backend for lockport.New, as New does. An error matches lockport.ErrInvalidOption.
func NewBackend(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, lockport.InvalidOption(backendName, errors.New("the *sql.DB is nil"))
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
		return nil, lockport.InvalidOption(backendName, err)
	}
	o.Blockers = session.Blockers(db, o.Blockers)
	s := &server{o: o, db: db, layout: layout, table: "`" + strings.ReplaceAll(o.Table, ".", "`.`") + "`"}
	return &Backend{server: s, engine: session.New(session.Options{
		Dial:         s.dial,
		TTL:          o.TTL,
		Blockers:     o.Blockers,
		Beat:         beat,
		Layout:       layout,
		Capabilities: capabilities(o),
		Look:         s.look,
		Close:        closeDB,
	})}, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	engine
	server *server
}

// engine is what Backend shares with the Postgres backend. It omits Notifier: this server notifies nobody of a free lock.
type engine interface {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
	driver.SessionBreaker
	Inspect(ctx context.Context, name string) (driver.Status, error)
}

const backendName = "mysql"

// removalNotice bounds how late holders hear of their session's end. beat is how often a silent session with locks is pinged: database/sql does not
// report the end of an idle connection. The difference is for busy machines and slow servers.
const (
	removalNotice = time.Second
	beat          = removalNotice / 2
)

// capabilities returns those for prepared options.
func capabilities(o Options) driver.Capabilities {
	caps := driver.Capabilities{
		Backend:       backendName,
		Ends:          driver.EndsSession,
		FixedTTL:      o.TTL,
		TTLGrain:      time.Second,
		MinTTL:        time.Second,
		Token:         driver.TokenFailover,
		Fair:          driver.FairNone,
		Wake:          driver.WakeQueueOrPoll, // poll: beyond Options.Blockers names
		Failover:      driver.FailoverUnsafe,
		Prompt:        true,
		Permits:       true,
		RemovalNotice: func(time.Duration) time.Duration { return removalNotice },
	}
	if o.NoTokens {
		caps.Token = driver.TokenNone
	}
	return caps
}
