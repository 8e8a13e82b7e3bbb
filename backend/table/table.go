package table

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
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
	return &Backend{db: db, dialect: &dialects[d], words: strings.NewReplacer(slices.Concat(dialects[d].words, []string{"{table}", o.Table})...)}, nil
}

// Backend is the driver.Backend, and a driver.BatchRenewer, Inspector, Breaker and Checker. Safe for concurrent use. It runs no goroutines.
type Backend struct {
	db      *sql.DB
	owned   bool // db was made of a URL: Close closes it
	create  bool // Check makes the table
	dialect *dialect
	words   *strings.Replacer
}

var capabilities = driver.Capabilities{
	Backend:  "table",
	Ends:     driver.EndsTTL,
	MinTTL:   time.Millisecond,
	TTLGrain: time.Millisecond,
	Token:    driver.TokenFailover,
	Fair:     driver.FairNone,
	Wake:     driver.WakePoll, // every 250 ms, the client's default, and when the holder's TTL ends
	Failover: driver.FailoverUnsafe,
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

// Schema returns the statement that makes the table unless it is there: for a migration, or for a user who may not make tables.
func Schema(d Dialect, o Options) (string, error) {
	b, err := NewBackend(new(sql.DB), d, o)
	if err != nil {
		return "", err
	}
	return b.text(b.dialect.schema), nil
}

// CreateTable makes the table of db unless it is there. It needs the right to create tables, which locks do not.
func CreateTable(ctx context.Context, db *sql.DB, d Dialect, o Options) error {
	b, err := NewBackend(db, d, o)
	if err != nil {
		return err
	}
	return b.makeTable(ctx)
}

func (b *Backend) makeTable(ctx context.Context) error {
	_, err := b.run(ctx, driver.ErrUnavailable, b.dialect.schema, nil)
	if err != nil && b.try(ctx) == nil {
		return nil // somebody else has made it at the same moment
	}
	return err
}
