package mysql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"time"
	"unicode/utf8"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// TTL is for how long the server keeps a session that says nothing (wait_timeout), in whole seconds: at most so long after this process
	// fell silent is what it holds granted to another. One session carries many locks, so a claim cannot have another TTL.
	// Default: that of lockport.TTL, if New gets it, else 15 s.
	TTL time.Duration

	// Blockers is how many names at most are waited for in the server's own queue, each on a connection of its own. Those who wait for further
	// names look once a second. At least 1. Default: 4.
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
	defaultPort     = "3306"
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
	case o.NoPrefix && o.Prefix != "":
		return fmt.Errorf("the options NoPrefix and Prefix %q exclude each other", o.Prefix)
	case o.ExactKeys && (o.NoPrefix || o.Prefix != ""):
		return errors.New("the option ExactKeys and a prefix exclude each other: an exact key has none")
	case !utf8.ValidString(o.Prefix):
		return fmt.Errorf("the option Prefix %q is not valid UTF-8", o.Prefix)
	case o.NoTokens && o.Table != "":
		return fmt.Errorf("the options NoTokens and Table %q exclude each other", o.Table)
	case o.Table != "" && !tableName.MatchString(o.Table):
		return fmt.Errorf("the option Table %q is no name of a table: want letters, digits, _, - and $, at most one dot", o.Table)
	case o.Blockers < 1 || o.Blockers > math.MaxInt16:
		return fmt.Errorf("the option Blockers is %d; it must be at least 1, and a server has a few hundred connections", o.Blockers)
	}
	if o.Prefix == "" && !o.NoPrefix {
		o.Prefix = defaultPrefix
	}
	if o.Table == "" {
		o.Table = defaultTable
	}
	return nil
}

// layout is where the locks are.
func (o *Options) layout() layout { return layout{prefix: o.Prefix, exact: o.ExactKeys} }

// connectTime bounds an attempt to connect where the configuration does not.
const connectTime = 5 * time.Second

// ownConfig makes of the caller's configuration that of our sessions, which is ours alone: what would read the environment or log, and what would
// end a session that holds locks because of a slow answer, is switched off.
func ownConfig(cfg *gomysql.Config, o *Options) (*gomysql.Config, error) {
	if cfg == nil {
		return nil, errors.New("the configuration is nil")
	}
	own := cfg.Clone()
	if own.DBName == "" && !o.NoTokens && !regexp.MustCompile(`\.`).MatchString(o.Table) {
		return nil, errors.New("no database is named, where the table of fencing tokens could be: name one, or do without tokens")
	}
	own.ReadTimeout, own.WriteTimeout = 0, 0
	own.CheckConnLiveness, own.MultiStatements, own.ParseTime, own.RejectReadOnly = false, false, false, false
	if own.Timeout == 0 {
		own.Timeout = connectTime
	}
	if own.Logger == gomysql.NewConfig().Logger || own.Logger == nil {
		own.Logger = &gomysql.NopLogger{}
	}
	if own.DialFunc == nil {
		switch own.Net {
		case "", "tcp", "tcp4", "tcp6", "unix":
		default:
			return nil, fmt.Errorf("the network %q of the configuration is not known here: set Config.DialFunc instead of registering it", own.Net)
		}
		own.DialFunc = dialPlain
	}
	return own, nil
}

// dialPlain connects, with keep-alives that find a dead server in seconds.
func dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}
	return d.DialContext(ctx, network, address)
}
