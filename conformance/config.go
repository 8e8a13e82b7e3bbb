package conformance

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

// Config tells the suite how to reach the backend under test. Only Open is required.
type Config struct {
	// Open makes a backend. Each case opens and closes as many as it needs; each stands for a client on another machine.
	// Open is called with Target, or with Direct for a backend that no fault may affect. It may be called from several
	// goroutines at once, and in worker processes. Backends opened for the same server must share its locks.
	Open func(ctx context.Context, target string) (driver.Backend, error)

	// Target is passed to Open, in this process and in workers: an address, a URL, a folder. May be empty.
	Target string

	// Direct is a target with the same locks as Target, but out of reach of the faults. Cases use it to observe the server
	// while the backend under test is cut off. Empty: the cases that need it are not run.
	Direct string

	// Local says that other processes cannot reach these locks, because they are in this process's memory. The cases that
	// need other processes are then not run.
	Local bool

	// MinTTL is the TTL of the cases, and sets how long expiry cases take. Default: 1 s. It is raised to the minimum of the
	// backend's Capabilities, and rounded up to their grain. Below half a second, correct backends fail on a busy machine.
	MinTTL time.Duration

	// Faults are the faults that you can produce.
	Faults Faults

	// Lanes are further ways to the same locks. With lanes, cases that need a fault run concurrently: one per lane, beside
	// the cases that need none. Without lanes each runs alone, at Target.
	Lanes []Lane
}

// Lane is a way to the locks of a Config with faults of its own, such as another proxy before the same server.
type Lane struct {
	// Target replaces Config.Target. No fault of Config or of another lane affects it.
	Target string
	// Faults affect backends opened at Target only. They must offer all of Config.Faults except Restart and Requests.
	Faults Faults
}

// Op is a kind of request, for faults that tell requests apart.
type Op int

// The kinds of requests.
const (
	OpAcquire Op = iota // may grant a claim
	OpRenew             // renews
	OpRelease           // releases
)

// String names the kind.
func (o Op) String() string { return [...]string{"acquire", "renew", "release"}[o] }

// Faults produces faults between the backends opened at Config.Target and their server. A nil field means that the cases
// that need it are not run. The same holds if the function returns errors.ErrUnsupported, as one does that
// cannot tell kinds of requests apart. Faults must not affect backends opened at Config.Direct. They may affect those that worker
// processes open at Target.
//
// A fault begins before its function returns, and adds to earlier faults. The suite calls Restore after every case that
// produced a fault. No two cases use the same Faults at once. The suite calls these functions one at a time, except the
// last three, which only observe.
type Faults struct {
	// Restore ends every fault. Required with Sever, Freeze, Delay, DropReply and CutAfter.
	Restore func()

	// Sever makes the server unreachable until Restore: live connections are closed and new ones fail.
	Sever func(ctx context.Context) error

	// Cut closes the live connections once. New ones work.
	Cut func(ctx context.Context) error

	// Freeze makes the server silent until Restore: connections stay open, but no byte passes in either direction. Bytes
	// sent meanwhile arrive afterwards.
	Freeze func(ctx context.Context) error

	// Delay delays every reply by at least d, until Restore.
	Delay func(ctx context.Context, d time.Duration) error

	// DropReply lets the server carry out the next request of the kind, and closes the connection instead of delivering the
	// reply. It happens once; the channel is closed when it has.
	DropReply func(ctx context.Context, op Op) (<-chan struct{}, error)

	// CutAfter lets n more requests (n ≥ 1) reach the server and closes the connection of the last one before its reply
	// is delivered. It happens once; the channel is closed when it has.
	CutAfter func(ctx context.Context, n int) (<-chan struct{}, error)

	// Remove makes the server forget who holds the lock name, as an operator or an eviction would.
	Remove func(ctx context.Context, name string) error

	// Overwrite makes a foreign client, not a lockport one, the holder of the lock name, for longer than a case lasts.
	// Remove ends that.
	Overwrite func(ctx context.Context, name string) error

	// Restart restarts the server, with its data or without, and returns when it serves again.
	Restart func(ctx context.Context, keepData bool) error

	// Leftovers lists what the server still keeps for locks whose names start with prefix: keys, nodes, rows, queue
	// entries, waiting sessions. It excludes what the backend keeps on purpose for a stated time, such as token counters.
	Leftovers func(ctx context.Context, prefix string) ([]string, error)

	// Conns counts the connections at the server of backends opened at Target.
	Conns func(ctx context.Context) (int, error)

	// Requests counts the requests that backends opened at Target have sent so far. A pipeline may count as one.
	Requests func(ctx context.Context) (int64, error)
}

// DefaultTTL is the default of Config.MinTTL.
const DefaultTTL = time.Second

// allowedTTL returns the fixed TTL, or d rounded up to one that the backend allows.
func allowedTTL(caps driver.Capabilities, d time.Duration) time.Duration {
	if caps.FixedTTL > 0 {
		return caps.FixedTTL
	}
	return roundUp(max(d, caps.MinTTL), caps.TTLGrain)
}

// roundUp rounds d up to a whole number of grains; 0: none.
func roundUp(d, grain time.Duration) time.Duration {
	grain = max(grain, 1)
	return (d + grain - 1) / grain * grain
}
