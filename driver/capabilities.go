package driver

import "time"

// Capabilities states what a backend promises, as it is configured. The conformance suite checks most statements in
// both directions. A zero field is the weakest statement.
type Capabilities struct {
	// Backend is the short name that errors and tables show, such as "redis".
	Backend string

	// Ends is how a claim ends when its holder falls silent.
	Ends Ending

	// MinTTL is the smallest TTL accepted; a smaller one is ErrRefused. 0: any, or known only to the server.
	MinTTL time.Duration
	// TTLGrain is the unit to which a TTL is rounded up. 0: no rounding.
	TTLGrain time.Duration
	// FixedTTL is the only TTL accepted, chosen at construction. Required with EndsSession. 0: each claim has its own.
	FixedTTL time.Duration

	// Token says how far the order of tokens can be trusted.
	Token TokenScope

	// Fair is the order in which waiting processes are served.
	Fair Fairness

	// Wake is how a waiter learns that a lockport client has released a name. It holds in every state that the configuration allows, for any number
	// of waiters and names. If some of them have to poll, it is WakePoll or WakeQueueOrPoll. HeldError.Poll sets how often they poll.
	Wake WakeMode

	// Failover says whether an acknowledged grant survives the loss of a server.
	Failover FailoverSafety

	// Prompt says that TryAcquire and Requeue return within 100 ms of their context's end, and Lease.Release of its deadline, whatever the client
	// library does. The client then calls them on the caller's goroutine, which saves a switch. Otherwise it calls them on a goroutine that it can
	// leave behind.
	Prompt bool

	// Queue says that Request.Queue is understood.
	Queue bool
	// Contended says that Request.Contended is called when another client begins to wait.
	Contended bool

	// Shared says that Request.Shared is understood.
	Shared bool
	// Permits says that Request.Permits is understood.
	Permits bool
	// Detach says that the Backend is an Attacher.
	Detach bool

	// RemovalNotice returns how soon a holder learns that the server removed its claim, for a TTL of ttl and a healthy network. The holder learns of it
	// from Request.Lost, or from a renewal, which the client sends after a third of the TTL at the latest. nil: the holder does not learn of it before
	// the claim's validity ends.
	RemovalNotice func(ttl time.Duration) time.Duration
}

// Ending is how a claim ends when its holder falls silent.
type Ending int

// The endings.
const (
	EndsNever   Ending = iota // never: not usable as a lock
	EndsTTL                   // when the TTL has passed since it was last set or confirmed
	EndsSession               // when the server notices that its connection or session is gone
	EndsProcess               // when its process is gone
)

// String names the ending for tables.
func (e Ending) String() string { return [...]string{"never", "TTL", "session", "process"}[e] }

// TokenScope is how far the order of fencing tokens can be trusted.
type TokenScope int

// The scopes, each including those before it.
const (
	TokenNone     TokenScope = iota // no tokens
	TokenData                       // tokens rise as long as the server's data survives
	TokenFailover                   // tokens rise across fail-over, and restart without data
)

// String names the scope for tables.
func (s TokenScope) String() string {
	return [...]string{"none", "while data survives", "across fail-over"}[s]
}

// Fairness is the order in which waiting processes are served. Inside a process it is always first in, first out.
type Fairness int

// The orders.
const (
	FairNone   Fairness = iota // no order
	FairAdvice                 // first in, first out among lockport clients that answer; foreign clients may overtake
	FairFIFO                   // first in, first out
)

// String names the order for tables.
func (f Fairness) String() string { return [...]string{"none", "FIFO, advisory", "FIFO"}[f] }

// WakeMode is how a waiting process learns that a name is free.
type WakeMode int

// The modes.
const (
	WakePoll        WakeMode = iota // it polls
	WakeQueueOrPoll                 // it waits in the server's queue, or polls if that is full
	WakeNotify                      // it is notified, and polls rarely as a safety net
	WakeQueue                       // it waits in the server's queue
)

// Polls reports whether a waiter may have to poll.
func (w WakeMode) Polls() bool { return w == WakePoll || w == WakeQueueOrPoll }

// String names the mode for tables.
func (w WakeMode) String() string {
	return [...]string{"poll", "server queue, else poll", "notification", "server queue"}[w]
}

// FailoverSafety is whether an acknowledged grant survives the loss of a server.
type FailoverSafety int

// The answers.
const (
	FailoverUnsafe FailoverSafety = iota // it can be lost: then only the token protects
	FailoverNone                         // nothing to fail over to: the lock is unavailable meanwhile
	FailoverSafe                         // it survives as long as a quorum does
)

// String names the answer for tables.
func (f FailoverSafety) String() string {
	return [...]string{"can be lost", "no fail-over", "survives"}[f]
}
