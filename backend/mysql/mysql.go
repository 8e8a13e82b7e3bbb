package mysql

import (
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// New makes a client of lockport on a MariaDB or MySQL server. Its sessions are connections of db (sql.DB.Conn), so that wrapped drivers, hooks and
// credentials apply to them: 1 from the first use on, and Options.Blockers more at most while names are waited for. A session's connection never goes
// back to db; it is closed when the session ends. New does no I/O. Close ends the sessions and leaves db open.
func New(db *sql.DB, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewBackend(db, o) })
}

// NewBackend makes a backend for lockport.New, as New does. An error matches lockport.ErrInvalidOption.
func NewBackend(db *sql.DB, o Options) (*Backend, error) {
	if db == nil {
		return nil, lockport.InvalidOption(backendName, errors.New("the *sql.DB is nil"))
	}
	if err := o.prepare(); err != nil {
		return nil, lockport.InvalidOption(backendName, err)
	}
	s := &server{o: o, db: db, layout: layout{prefix: o.Prefix, exact: o.ExactKeys}, table: "`" + strings.ReplaceAll(o.Table, ".", "`.`") + "`"}
	return &Backend{server: s, engine: session.New(s, session.Options{
		TTL:          o.TTL,
		Blockers:     s.blockers(),
		Beat:         beat,
		Layout:       s.layout.key,
		Permit:       permit,
		Capabilities: capabilities(o),
	})}, nil
}

// blockers is Options.Blockers, or less where the pool is too small: it keeps one connection for the locks and one for other queries.
func (s *server) blockers() int {
	if most := s.db.Stats().MaxOpenConnections; most > 0 {
		return max(0, min(s.o.Blockers, most-2))
	}
	return s.o.Blockers
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	engine
	server *server
	owned  *sql.DB // ours alone, made of a URL; nil: the caller's
}

// Close implements driver.Backend.
func (b *Backend) Close() error {
	err := b.engine.Close()
	if b.owned != nil {
		err = errors.Join(err, b.owned.Close())
	}
	return err
}

// engine is what this has in common with Postgres, of which it leaves out the Notifier: this server tells nobody that a lock is free.
type engine interface {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
}

const backendName = "mysql"

// removalNotice is within what time the end of a session is told, and beat how often a session with locks is asked for a sign of life: database/sql does not
// tell of the end of an idle connection. What is left is for a busy machine and a slow server.
const (
	removalNotice = time.Second
	beat          = removalNotice / 2
)

// capabilities are those of a backend with these options, prepared; the engine knows the rest.
func capabilities(o Options) driver.Capabilities {
	caps := driver.Capabilities{
		Backend:       backendName,
		Ends:          driver.EndsSession,
		FixedTTL:      o.TTL,
		TTLGrain:      time.Second,
		MinTTL:        time.Second,
		Token:         driver.TokenFailover,
		Fair:          driver.FairNone,
		Wake:          driver.WakeQueueOrPoll, // the latter beyond Options.Blockers names
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
