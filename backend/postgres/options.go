package postgres

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// TTL is how long the server keeps a silent session of this process, and its locks. One session carries many locks, so a claim cannot have
	// another TTL. Default: that of lockport.TTL if New gets it, else 15 s. At least 100 ms.
	TTL time.Duration

	// Blockers limits how many names wait in the server's own queue, each on a separate connection, which keeps the lock
	// that it waited for until the release. A reader that could overtake a waiting writer uses one too. Waiters for other names are notified, and
	// try again once a second. So a client has at most 1 + Blockers connections. An earlier SetMaxOpenConns of the DB that NewDB gets limits it to
	// that limit less two. Default: 4. At most 1000.
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
	minTTL = 100 * time.Millisecond
	maxTTL = 24 * time.Hour
)

// prepare fills in the defaults and validates o.
func (o *Options) prepare() (session.Layout, error) {
	o.TTL = cmp.Or(o.TTL, lockport.DefaultTTL)
	o.Blockers = cmp.Or(o.Blockers, 4)
	o.Schema = cmp.Or(o.Schema, "public")
	l, err := session.NewLayout(o.Prefix, o.NoPrefix, o.ExactKeys, exactKey, hashKey)
	switch {
	case err != nil:
		return l, err
	case o.TTL < minTTL || o.TTL > maxTTL || o.TTL%time.Millisecond != 0:
		return l, fmt.Errorf("the TTL is %v; it must be a whole number of milliseconds from %v to %v", o.TTL, minTTL, maxTTL)
	case o.Blockers < 1 || o.Blockers > 1000:
		return l, fmt.Errorf("the option Blockers is %d; it must be from 1 to 1000", o.Blockers)
	case !utf8.ValidString(o.Schema) || len(o.Schema) > 63:
		return l, fmt.Errorf("the option Schema %q is not a schema name", o.Schema)
	}
	return l, nil
}

// exactKey is the key of a name that is a number.
func exactKey(name string) (session.Key, error) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != name { // "007" and "7" would share a lock
		return "", fmt.Errorf("%w: the name %q is not a key: with exact keys, names are 64-bit numbers such as 42 or -7", driver.ErrRefused, name)
	}
	return session.Key(name), nil
}

// hashKey is the first 8 bytes, big-endian, of a hash as a signed number.
func hashKey(sum [sha256.Size]byte) session.Key {
	return sessionKey(int64(binary.BigEndian.Uint64(sum[:])))
}

// sessionKey is a key in the engine's form.
func sessionKey(key int64) session.Key { return session.Key(strconv.FormatInt(key, 10)) }

// number returns the key as the server's number.
func number(key session.Key) int64 {
	n, _ := strconv.ParseInt(string(key), 10, 64) // the layout made it from a number
	return n
}

// side is a lock in the space of two 32-bit keys. Sessions that await key hold it in shared mode: it tells a release whether to notify anybody. That
// of a random key is a session's marker.
func side(key int64) (hi, lo int32) {
	sum := sha256.Sum256(fmt.Append(nil, "lockport.side:", key))
	return int32(binary.BigEndian.Uint32(sum[:])), int32(binary.BigEndian.Uint32(sum[4:]))
}
