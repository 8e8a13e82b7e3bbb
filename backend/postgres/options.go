package postgres

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lockurl"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// TTL is after how long of silence the server ends this process's sessions, and its locks with them. One session carries many locks, so a claim
	// cannot have another TTL. Default: that of lockport.TTL, if New gets it, else 15 s. At least 100 ms.
	TTL time.Duration

	// Blockers is how many names at most wait in the server's own queue, each on a connection of its own; the others are woken by notification, and
	// look once a second. So a client has at most 1 + Blockers connections. Default: 4. At most 1000.
	Blockers int

	// Prefix is what a name is hashed behind. Clients meet if theirs is the same. Default: "lockport:".
	Prefix string
	// NoPrefix hashes the name alone.
	NoPrefix bool
	// ExactKeys takes names as the keys themselves, decimal numbers of 64 bits ("42"), to meet other programs at keys that they have chosen. Other
	// names are refused.
	ExactKeys bool

	// Schema is where the sequence lockport_token and the table lockport_epoch are, or are made. Clients whose locks meet must have the same.
	// Default: "public".
	Schema string
}

const (
	defaultBlockers = 4
	minTTL          = 100 * time.Millisecond
	maxTTL          = 24 * time.Hour
	defaultPrefix   = "lockport:"
	defaultSchema   = "public"
)

// prepare checks o and puts in the defaults.
func (o *Options) prepare() (layout, error) {
	if o.TTL == 0 {
		o.TTL = lockport.DefaultTTL
	}
	if o.Blockers == 0 {
		o.Blockers = defaultBlockers
	}
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	prefix, err := lockurl.Prefix(o.Prefix, o.NoPrefix, defaultPrefix)
	l := layout{prefix: prefix, exact: o.ExactKeys}
	switch {
	case err != nil:
		return l, err
	case o.TTL < minTTL || o.TTL > maxTTL || o.TTL%time.Millisecond != 0:
		return l, fmt.Errorf("the TTL is %v; it must be a whole number of milliseconds from %v to %v", o.TTL, minTTL, maxTTL)
	case o.Blockers < 1 || o.Blockers > 1000:
		return l, fmt.Errorf("the option Blockers is %d; it must be from 1 to 1000", o.Blockers)
	case o.ExactKeys && (o.NoPrefix || o.Prefix != ""):
		return l, fmt.Errorf("the option ExactKeys leaves no place for a prefix")
	case !utf8.ValidString(o.Schema) || len(o.Schema) > 63:
		return l, fmt.Errorf("the option Schema %q is no name of a schema", o.Schema)
	}
	return l, nil
}
