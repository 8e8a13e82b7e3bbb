package mysql

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/session"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// TTL is for how long the server keeps a silent session (wait_timeout), in whole seconds. If the process goes silent, its locks become free after
	// at most this long. One session carries many locks, so a claim cannot have another TTL.
	// Default: that of lockport.TTL, if New gets it, else 15 s.
	TTL time.Duration

	// Blockers is how many names at most are waited for in the server's own queue, each on a connection of its own. Waiters of further names look
	// once a second. Where sql.DB.SetMaxOpenConns has set a limit before, it is at most that limit less two. At least 1. Default: 4.
	Blockers int

	// Prefix goes before the name of every lock, which is then hashed. Clients meet if theirs is the same, in whatever database of the server they
	// are. Default: "lockport:".
	Prefix string
	// NoPrefix hashes the name alone.
	NoPrefix bool
	// ExactKeys makes the name itself that of the lock at the server, to meet clients of other programs that call GET_LOCK. It must then be of 1
	// to 64 characters of printable ASCII without quote and backslash, the last no space, and on MySQL, where case does not count, without upper-case letters.
	ExactKeys bool

	// Table is the table of fencing tokens, which is created in the connection's database if it is missing. It may be named with its database,
	// "database.table". Default: "lockport_fence".
	Table string
	// NoTokens does without fencing tokens, and so without the table, a commit for each grant, and the holders' names in Inspect and List.
	NoTokens bool
}

const (
	defaultBlockers = 4
	defaultTable    = "lockport_fence"
	defaultPrefix   = "lockport:"
	// maxKey is how long a lock's name may be at the server: MySQL's limit. MariaDB's is 192.
	maxKey = 64
	// maxTTL is what wait_timeout can be on Windows, the least of all systems.
	maxTTL = 2147483 * time.Second
)

// tableName is what a table may be called here: what needs no more quoting than a pair of backquotes.
var tableName = regexp.MustCompile(`^([0-9A-Za-z$_-]{1,64}\.)?[0-9A-Za-z$_-]{1,64}$`)

// prepare checks o and puts in the defaults.
func (o *Options) prepare() error {
	if o.TTL == 0 {
		o.TTL = lockport.DefaultTTL
	}
	if o.Blockers == 0 {
		o.Blockers = defaultBlockers
	}
	switch {
	case o.TTL < time.Second || o.TTL%time.Second != 0 || o.TTL > maxTTL:
		return fmt.Errorf("the TTL is %v; on MySQL it must be a whole number of seconds, at most %v", o.TTL, maxTTL)
	case o.ExactKeys && (o.NoPrefix || o.Prefix != ""):
		return errors.New("the option ExactKeys and a prefix exclude each other: an exact key has none")
	case o.NoTokens && o.Table != "":
		return fmt.Errorf("the options NoTokens and Table %q exclude each other", o.Table)
	case o.Table != "" && !tableName.MatchString(o.Table):
		return fmt.Errorf("the option Table %q is no name of a table: want letters, digits, _, - and $, at most one dot", o.Table)
	case o.Blockers < 1 || o.Blockers > math.MaxInt16:
		return fmt.Errorf("the option Blockers is %d; it must be at least 1, and a server has a few hundred connections", o.Blockers)
	}
	if o.Table == "" {
		o.Table = defaultTable
	}
	prefix, err := lockurl.Prefix(o.Prefix, o.NoPrefix, defaultPrefix)
	o.Prefix = prefix
	return err
}

// layout says which name a lock has at the server.
type layout struct {
	prefix string
	exact  bool
}

// key is the name that GET_LOCK is given for a lock: the SHA-256 of the prefix and the name, in 64 lower-case hexadecimal digits, or the name
// itself, without a space at its end, which the collation of the table's key takes no notice of. An error is driver.ErrRefused.
func (l layout) key(name string) (session.Key, error) {
	if !l.exact {
		sum := sha256.Sum256([]byte(l.prefix + name))
		return session.Key(hex.EncodeToString(sum[:])), nil
	}
	if len(name) > maxKey || strings.HasSuffix(name, " ") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' || r == '\'' }) {
		return "", fmt.Errorf("%w: with exact keys a name has 1 to %d characters of printable ASCII without quote and backslash, the last no space", driver.ErrRefused, maxKey)
	}
	return session.Key(name), nil
}

// permit is session.Options.Permit.
func permit(key session.Key, n int) session.Key {
	sum := sha256.Sum256([]byte(fmt.Sprintf("lockport.permit:%s:%d", key, n)))
	return session.Key(hex.EncodeToString(sum[:]))
}

// literal is the key in SQL. It has neither quotes nor backslashes.
func literal(key session.Key) string { return "'" + string(key) + "'" }

// binary is text in SQL, whatever it contains.
func binary(text string) string {
	if text == "" {
		return "''"
	}
	return "x'" + hex.EncodeToString([]byte(text)) + "'"
}
