package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

// Config says how the suite reaches the backend under test. Only Open is needed.
type Config struct {
	// Open makes a backend. Each case opens as many as it needs, each as good as another machine's, and closes them. It
	// is called with Target, or with Direct for a backend that no fault may touch, from several goroutines at once, and
	// in worker processes. Backends opened for the same server must meet at the same locks.
	Open func(ctx context.Context, target string) (driver.Backend, error)

	// Target is passed to Open, in this process and in workers: an address, a URL, a folder. May be empty.
	Target string

	// Direct is a target that leads to the same locks as Target but past the faults: an observer that still sees the
	// server while the backend under test is cut off. Empty: the cases that need one are not run.
	Direct string

	// Local says that another process cannot reach these locks (they are in this process's memory). The cases that
	// need other processes are then not run.
	Local bool

	// MinTTL is the TTL that the cases use, and so how long those take that wait for one to pass. Default: 1 s. It is
	// raised to what the backend's Capabilities demand, and rounded up to their grain. Below half a second a busy machine
	// fails correct backends.
	MinTTL time.Duration

	// Faults are the faults that can be produced.
	Faults Faults

	// Lanes are further ways to the same locks. With them the cases that need a fault run at the same time, one in each lane,
	// and beside those that need none. Without them each runs alone, at Target.
	Lanes []Lane
}

// Lane is a way to the locks of a Config with faults of its own, such as another proxy before the same server.
type Lane struct {
	// Target takes the place of Config.Target. No fault of Config or of another lane touches it.
	Target string
	// Faults touch what is opened at Target and nothing else. They must offer what Config.Faults offers, save Restart and Requests.
	Faults Faults
}

// Op is what a request is for, as far as a fault tells requests apart.
type Op int

// The kinds of requests.
const (
	OpAny     Op = iota // any request
	OpAcquire           // one that may grant a claim
	OpRenew             // one that renews
	OpRelease           // one that releases
)

// String names the kind.
func (o Op) String() string { return [...]string{"any", "acquire", "renew", "release"}[o] }

// ErrNoFault is returned by a function of Faults that cannot do what it is asked, such as telling one kind of request from
// another. The case is then not run. errors.ErrUnsupported says the same.
var ErrNoFault = errors.New("this fault cannot be produced")

// Faults produces faults between the backends opened at Config.Target and their server. Each field may be nil; the
// cases that need it are then not run. Faults must not touch backends opened at Config.Direct, and those opened in worker
// processes at Target may or may not be touched.
//
// A fault begins before its function returns, and adds to those before it. Restore, called after every case that
// produced one, ends them all. No two cases use the same Faults at a time, and the suite calls these functions one at a time, save the
// last three, which only look.
type Faults struct {
	// Restore ends every fault. Needed with Sever, Freeze, Delay, DropReply and CutAfter.
	Restore func()

	// Sever makes the server gone: live connections are closed and new ones fail, until Restore.
	Sever func(ctx context.Context) error

	// Cut closes the live connections once. New ones work.
	Cut func(ctx context.Context) error

	// Freeze makes the server silent: connections stay open, and no byte passes in either direction, until Restore. What was
	// sent meanwhile then arrives.
	Freeze func(ctx context.Context) error

	// Delay makes every reply come at least d later, until Restore.
	Delay func(ctx context.Context, d time.Duration) error

	// DropReply lets the next request of the kind reach the server and be carried out, but its reply never comes: the
	// connection is closed instead. It happens once; the channel is closed when it has.
	DropReply func(ctx context.Context, op Op) (<-chan struct{}, error)

	// CutAfter lets n more requests (n ≥ 1) reach the server and closes the connection of the last one before its reply
	// is delivered. It happens once; the channel is closed when it has.
	CutAfter func(ctx context.Context, n int) (<-chan struct{}, error)

	// Remove makes the server forget who holds the lock name, as an operator or an eviction would.
	Remove func(ctx context.Context, name string) error

	// Overwrite makes somebody else, not a lockport client, the holder of the lock name, for longer than a case
	// lasts. Remove ends that.
	Overwrite func(ctx context.Context, name string) error

	// Restart restarts the server, with its data or without, and returns when it serves again.
	Restart func(ctx context.Context, keepData bool) error

	// Leftovers names what the server still keeps for locks whose names start with prefix: keys, nodes, rows, queue
	// entries, waiting sessions. What the backend keeps on purpose for its stated time, such as token counters, is excluded.
	Leftovers func(ctx context.Context, prefix string) ([]string, error)

	// Conns counts the client connections that backends opened at Target have at the server.
	Conns func(ctx context.Context) (int, error)

	// Requests counts the requests that backends opened at Target have sent so far. A pipeline may count as one.
	Requests func(ctx context.Context) (int64, error)
}

// DefaultTTL is what Config.MinTTL is by default.
const DefaultTTL = time.Second

// ttl is the TTL of the cases.
func (c Config) ttl(caps driver.Capabilities) time.Duration {
	if caps.FixedTTL > 0 {
		return caps.FixedTTL
	}
	d := c.MinTTL
	if d <= 0 {
		d = DefaultTTL
	}
	return roundUp(max(d, caps.MinTTL), caps.TTLGrain)
}

// roundUp rounds d up to a whole number of grains.
func roundUp(d, grain time.Duration) time.Duration {
	if grain <= 0 {
		return d
	}
	return (d + grain - 1) / grain * grain
}
