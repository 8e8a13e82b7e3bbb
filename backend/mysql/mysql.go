package mysql

import (
	"context"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// New makes a client of lockport on a MariaDB or MySQL server. It copies cfg and does no I/O; sessions are opened by the first use, end with
// Close, and are no pool's.
func New(cfg *gomysql.Config, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	ttl, err := lockport.SessionTTL(o.TTL, opts)
	if err != nil {
		return nil, lockport.InvalidOption(backendName, err)
	}
	o.TTL = ttl
	b, err := NewBackend(cfg, o)
	if err != nil {
		return nil, lockport.InvalidOption(backendName, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(cfg *gomysql.Config, o Options) (*Backend, error) {
	s, err := newServer(cfg, o)
	if err != nil {
		return nil, err
	}
	return &Backend{server: s, engine: session.New(s, session.Options{
		TTL:          s.o.TTL,
		Blockers:     s.o.Blockers,
		Layout:       s.layout.key,
		Capabilities: capabilities(s.o),
	})}, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	engine
	server *server
}

// engine is what this has in common with Postgres, of which it leaves out the Notifier: this server tells nobody that a lock is free.
type engine interface {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
	Do(ctx context.Context, ops ...*session.Op) error
}

var _ interface {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
	driver.Inspector
	driver.SessionBreaker
	driver.Checker
} = (*Backend)(nil)

const backendName = "mysql"

// noticeBound is within what time a holder is told that its session was killed.
const noticeBound = 100 * time.Millisecond

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
		RemovalNotice: func(time.Duration) time.Duration { return noticeBound },
	}
	if o.NoTokens {
		caps.Token = driver.TokenNone
	}
	return caps
}
