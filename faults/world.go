package faults

import (
	"context"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
)

// Arrangement is a way to set up lock servers: one Redis, five of them under Redlock, an etcd cluster.
type Arrangement struct {
	// Name is short: "redis", "redis-failover", "etcd".
	Name string
	// Title says for people what stands there: "one Redis", "Redis with a replica and Sentinels".
	Title string
	// Backend is the backend of package backend that locks on it.
	Backend string
	// TTL is that which workers use.
	TTL time.Duration
	// Margin is what a hold's deadline is earlier than the last renewal sent + TTL.
	Margin time.Duration
	// Sessions says that the server frees a claim when its worker's connection ends, not only when the TTL has passed.
	Sessions bool
	// Tokens says that holds have fencing tokens.
	Tokens bool
	// RemovalNotice is within which time the holder of a claim that the server ended is told while the network is well (docs/guarantees.md, P3b).
	RemovalNotice time.Duration
	// Local says that workers reach the locks without a network.
	Local bool
	// Variant says that it differs from another one in little, such as a version: it is for long runs.
	Variant bool
	// Needs are the kinds of servers, as LOCKPORT_TEST_REQUIRE has them.
	Needs []string
	// Start starts the servers. ctx bounds the start. The caller must Close the world. A server that is not installed is a
	// *servers.NotInstalled.
	Start func(ctx context.Context) (*World, error)
	// Cells are the faults that can happen here.
	Cells []Cell
}

// World is an [Arrangement] that runs.
type World struct {
	*Arrangement
	// Seat makes a place for one more worker process. Nothing is shared by two seats but the servers.
	Seat func() (*Seat, error)
	// Mend makes the servers well again after a phase, whatever it did to them, and returns when they serve.
	Mend func(ctx context.Context) error
	// Close ends the servers.
	Close func() error
	// Log is the end of what the servers printed.
	Log func() string
	// Servers is what the strikes of this arrangement work on.
	Servers any
}

// Seat is how one worker process reaches the servers.
type Seat struct {
	// URL is what it opens.
	URL string
	// Links are what lies between: one proxy for each server.
	Links []*faultproxy.Proxy
}

// Outcome is what a fault does to locks.
type Outcome int

// The outcomes.
const (
	// Safe: nobody believes to hold a lock that somebody else holds.
	Safe Outcome = iota
	// Unavailable: safe, and nobody acquires a lock while the fault lasts.
	Unavailable
	// UnsafeFenced: two can believe to hold a lock; their tokens still rise, so that a fence refuses the older one.
	UnsafeFenced
	// Unsafe: two can believe to hold a lock, and no token tells them apart.
	Unsafe
)

// String names the outcome for people.
func (o Outcome) String() string {
	return [...]string{"safe", "unavailable", "unsafe but fenced", "unsafe"}[o]
}

// IsSafe says that no two may believe to hold a lock.
func (o Outcome) IsSafe() bool { return o == Safe || o == Unavailable }

// Cell is a fault that can happen to an [Arrangement], and what is stated of it.
type Cell struct {
	// Fault is its name: "holder-killed", "leader-paused".
	Fault string
	// Outcome is what is stated.
	Outcome Outcome
	// Why says in a sentence, for people, why it is so, or what happens.
	Why string
	// Strike makes the fault while workers work, lets it last, and ends it; what is broken for good, [World.Mend] restores. Its
	// choices come from p.Rand alone, so that a seed replays them. With an Outcome of Unavailable it calls p.Away and p.Back.
	Strike func(ctx context.Context, p *Phase) error
	// Script, instead of Strike, leads commanded workers through one interleaving. Cells that are unsafe have one, unless the
	// fault shows it by itself; who plays it must see two that believe to hold the lock, within Tries plays (default 1).
	Script func(ctx context.Context, p *Phase) error
	// Busy is to have workers hold as often as possible, rather than as long as it takes to be struck.
	Busy bool
	// Tries is within how many plays the overlap must be seen; what is not certain in one play must be missed in all of
	// them with a probability of less than 10⁻⁶.
	Tries int
	// Argued says that an unsafe outcome is stated by argument and not shown: nothing is asserted.
	Argued bool
	// Recovery is within which time after the fault somebody acquires again: docs/guarantees.md states it, the tests assert ten
	// times as much. Default: the TTL and 1 s.
	Recovery time.Duration
	// Gone says that the server may end claims at the very moment of the fault (a session is killed, the server restarts), so that the
	// judge of linearizability lets them expire from then on.
	Gone bool
}

// Open starts the arrangement's servers. See Start.
func (a *Arrangement) Open(ctx context.Context) (*World, error) {
	w, err := a.Start(ctx)
	if err == nil {
		w.Arrangement = a
	}
	return w, err
}
