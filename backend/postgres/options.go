package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/session"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// TTL is how long the server keeps a silent session of this process, and its locks. One session carries many locks, so a claim cannot have
	// another TTL. Default: that of lockport.TTL if New gets it, else 15 s. At least 100 ms.
	TTL time.Duration

	// Blockers limits how many names wait in the server's own queue, each on a connection of its own. Waiters for other names are notified, and
	// try again once a second. So a client has at most 1 + Blockers connections. Default: 4. At most 1000.
	Blockers int

	// Prefix is hashed before each name. Clients share locks if they share it. Default: "lockport:".
	Prefix string
	// NoPrefix hashes the name alone.
	NoPrefix bool
	// ExactKeys takes names as the keys themselves, decimal numbers of 64 bits ("42"), to share locks with programs that chose such keys. Other names
	// are refused.
	ExactKeys bool

	// Schema is the schema of the sequence lockport_token and the table lockport_epoch. Clients that share locks must share it.
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

// prepare fills in the defaults and validates o.
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
		return l, errors.New("the options ExactKeys and Prefix (or NoPrefix) exclude each other")
	case !utf8.ValidString(o.Schema) || len(o.Schema) > 63:
		return l, fmt.Errorf("the option Schema %q is not a schema name", o.Schema)
	}
	return l, nil
}

// layout maps names to the server's keys. Other programs depend on it: tests pin the golden vectors in docs/backends/postgres.md, and changing one
// is a major version.
type layout struct {
	prefix string
	exact  bool
}

// key is the advisory lock on name: the first 8 bytes, big-endian, of SHA-256(prefix+name) as a signed number; with exact keys, the number in name.
func (l layout) key(name string) (int64, error) {
	if l.exact {
		n, err := strconv.ParseInt(name, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != name { // "007" and "7" would share a lock
			return 0, fmt.Errorf("%w: the name %q is not a key: with exact keys, names are 64-bit numbers such as 42 or -7", driver.ErrRefused, name)
		}
		return n, nil
	}
	return first64(l.prefix + name), nil
}

// sessionKey is key for the engine.
func (l layout) sessionKey(name string) (session.Key, error) {
	n, err := l.key(name)
	return sessionKey(n), err
}

// sessionKey is a key in the engine's form.
func sessionKey(key int64) session.Key { return session.Key(strconv.FormatInt(key, 10)) }

// permit is session.Options.Permit.
func permit(key session.Key, n int) session.Key {
	return sessionKey(first64(fmt.Sprintf("lockport.permit:%s:%d", key, n)))
}

func first64(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// side is a lock in the space of two 32-bit keys. Sessions that await key hold it in shared mode: it tells a release whether to notify anybody.
func side(key int64) (hi, lo int32) {
	n := uint64(first64("lockport.side:" + strconv.FormatInt(key, 10)))
	return int32(n >> 32), int32(n)
}
