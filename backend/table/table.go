package table

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Table is the table's name, perhaps with a schema or database before it: "app.locks". Letters, digits and underscores. Clients meet if theirs is the same.
	// Default: "lockport_locks".
	Table string
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// New makes a client of lockport on a table of db, whose server speaks the dialect d. Any driver of database/sql will do, and any size of its pool. New does no
// I/O and does not make the table: see CreateTable. Close leaves db open.
func New(db *sql.DB, d Dialect, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(db, d, o)
	if err != nil {
		return nil, err
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does. An error matches lockport.ErrInvalidOption.
func NewBackend(db *sql.DB, d Dialect, o Options) (*Backend, error) {
	o.Table = cmp.Or(o.Table, "lockport_locks")
	var err error
	switch {
	case db == nil:
		err = errors.New("the *sql.DB is nil")
	case d < 0 || int(d) >= len(dialects):
		err = fmt.Errorf("the dialect %d is not known", int(d))
	case !tableName.MatchString(o.Table):
		err = fmt.Errorf("the option Table %q is not a name of letters, digits and underscores", o.Table)
	}
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return &Backend{db: db, dialect: dialects[d], words: strings.NewReplacer(append(dialects[d].words, "{table}", o.Table)...)}, nil
}

// Backend is the driver.Backend. Safe for concurrent use. It runs no goroutines.
type Backend struct {
	db      *sql.DB
	owned   bool // db was made of a URL: Close closes it
	create  bool // Check makes the table
	dialect dialect
	words   *strings.Replacer
	late    sync.Map // the owners of claims that may still be on their way to the server
}

var _ interface {
	driver.Backend
	driver.BatchRenewer
	driver.Attacher
	driver.Inspector
	driver.Breaker
	driver.Checker
} = (*Backend)(nil)

var capabilities = driver.Capabilities{
	Backend:  "table",
	Ends:     driver.EndsTTL,
	MinTTL:   time.Millisecond,
	TTLGrain: time.Millisecond,
	Token:    driver.TokenFailover,
	Fair:     driver.FairNone,
	Wake:     driver.WakePoll, // every 250 ms, the client's default, and when the holder's TTL ends
	Failover: driver.FailoverUnsafe,
	Detach:   true,
	// The renewal comes at a third of the TTL, and finds out.
	RemovalNotice: func(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend.
func (b *Backend) Close() error {
	if b.owned {
		return b.db.Close()
	}
	return nil
}
