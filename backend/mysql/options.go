package mysql

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// TTL is how long the server keeps a silent session (wait_timeout), in whole seconds. If the process goes silent, its locks become free after
	// at most this long, on a server with thread_handling=pool-of-threads 1.5 s later. One session carries many locks, so a claim cannot have another
	// TTL.
	// Default: that of lockport.TTL if New gets it, else 15 s.
	TTL time.Duration

	// Blockers limits how many names wait in the server's own queue, each on a connection of its own. Waiters for other names poll once a
	// second. An earlier sql.DB.SetMaxOpenConns limits it to that limit less two. At least 1. Default: 4.
	Blockers int

	// Prefix is hashed before each name. Clients share locks if they share it, in whatever database of the server they are. Default: "lockport:".
	Prefix string
	// NoPrefix hashes the name alone.
	NoPrefix bool
	// ExactKeys uses names as the server's lock names, to share locks with programs that call GET_LOCK. Names must then have 1 to 64 characters of
	// printable ASCII without ' and \, and not end in a space. MySQL ignores case, so upper-case letters are refused there.
	ExactKeys bool

	// Table is the table of fencing tokens. It is created in the connection's database if it is missing. "database.table" names another database.
	// Default: "lockport_fence".
	Table string
	// NoTokens does without fencing tokens, and so without the table, a commit per grant, and the holders' names in Inspect and List.
	NoTokens bool
}

const (
	// maxKey is the longest lock name: MySQL's limit. MariaDB's is 192.
	maxKey = 64
	// maxTTL is the greatest wait_timeout on Windows, where it is lowest.
	maxTTL = 2147483 * time.Second
)

// tableName matches the accepted tables: they need no quoting beyond backquotes.
var tableName = regexp.MustCompile(`^([0-9A-Za-z$_-]{1,64}\.)?[0-9A-Za-z$_-]{1,64}$`)

// prepare fills in the defaults and validates o.
func (o *Options) prepare() (session.Layout, error) {
	o.TTL = cmp.Or(o.TTL, lockport.DefaultTTL)
	o.Blockers = cmp.Or(o.Blockers, 4)
	l, err := session.NewLayout(o.Prefix, o.NoPrefix, o.ExactKeys, exactKey, hashKey)
	switch {
	case err != nil:
		return l, err
	case o.TTL < time.Second || o.TTL%time.Second != 0 || o.TTL > maxTTL:
		return l, fmt.Errorf("the TTL is %v; on MySQL it must be a whole number of seconds, at most %v", o.TTL, maxTTL)
	case o.NoTokens && o.Table != "":
		return l, fmt.Errorf("the options NoTokens and Table %q exclude each other", o.Table)
	case o.Table != "" && !tableName.MatchString(o.Table):
		return l, fmt.Errorf("the option Table %q is not a table name: want letters, digits, _, - and $, and at most one dot", o.Table)
	case o.Blockers < 1 || o.Blockers > math.MaxInt16:
		return l, fmt.Errorf("the option Blockers is %d; it must be at least 1, and a server has a few hundred connections", o.Blockers)
	}
	o.Table = cmp.Or(o.Table, "lockport_fence")
	return l, nil
}

// exactKey returns a name as the name for GET_LOCK. It cannot end in a space, which the collation of the table's key ignores.
func exactKey(name string) (session.Key, error) {
	if len(name) > maxKey || strings.HasSuffix(name, " ") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' || r == '\'' }) {
		return "", fmt.Errorf("%w: with exact keys, names have 1 to %d characters of printable ASCII without ' and \\, and do not end in a space", driver.ErrRefused, maxKey)
	}
	return session.Key(name), nil
}

// hashKey is a hash in 64 lower-case hexadecimal digits.
func hashKey(sum [sha256.Size]byte) session.Key { return session.Key(hex.EncodeToString(sum[:])) }

// literal returns key in SQL. It has neither quotes nor backslashes.
func literal(key session.Key) string { return "'" + string(key) + "'" }

// binary returns any text in SQL.
func binary(text string) string {
	if text == "" {
		return "''"
	}
	return "x'" + hex.EncodeToString([]byte(text)) + "'"
}
