package driver

import (
	"context"
	"fmt"
	"time"
)

// Unwrapper is implemented by a Backend that wraps another one (to count, trace or delay its calls). The optional
// interfaces below are looked up through it, with As, so that a plain wrapper loses nothing.
type Unwrapper interface {
	Unwrap() Backend
}

// As returns the first Backend in the chain of Unwrap that implements T.
func As[T any](b Backend) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		u, ok := b.(Unwrapper)
		if !ok {
			break
		}
		b = u.Unwrap()
	}
	var none T
	return none, false
}

// Waiter is a Backend whose server has a queue of its own in which a claim can wait.
type Waiter interface {
	// Wait claims as Backend.TryAcquire does but blocks until the claim is granted, ctx ends (then the outcome is
	// unknown and the client abandons it), or an error other than ErrHeld occurs. It may return ErrHeld when it can
	// not wait now (say, no connection is left to block on): the client then waits as for a backend without Waiter.
	Wait(ctx context.Context, req Request) (Lease, error)
}

// Notifier is a Backend that can tell when a name may have become free. Hints are advice: a hint may be missing (the
// client looks again on its own, see HeldError) and may come too often.
type Notifier interface {
	// Notify calls wake, which never blocks, from any goroutine, whenever the claim req, which found the name held, should try again.
	// stop ends that; after it has returned wake may be called once more. Notify does no I/O that it waits for: a
	// driver that must connect or subscribe first does so in the background and calls wake once it listens. A hint
	// that came between the sending of req and this call counts: wake is called for it at once.
	Notify(req Request, wake func()) (stop func())
}

// BatchRenewer is a Backend that renews many leases in a few round trips.
type BatchRenewer interface {
	// RenewBatch renews leases, all of this Backend and of one TTL, as Renewer does each, in as few round trips as it can, and
	// writes what became of each into the element of results with the same index. len(results) == len(leases). The
	// client calls it with any number of leases, and not twice at once for the same lease. ctx ends no later than the
	// first of their validities.
	RenewBatch(ctx context.Context, leases []Lease, results []Renewal)
}

// Renew renews lease, which b granted, in a batch of one or by itself, as lockport does. It is for tests and tools.
func Renew(ctx context.Context, b Backend, lease Lease) (until time.Time, err error) {
	if batch, ok := As[BatchRenewer](b); ok {
		var result [1]Renewal
		batch.RenewBatch(ctx, []Lease{lease}, result[:])
		return result[0].Until, result[0].Err
	}
	if r, ok := lease.(Renewer); ok {
		return r.Renew(ctx)
	}
	return time.Time{}, fmt.Errorf("%w: neither the lease nor its backend can renew it", ErrUnknown)
}

// Renewal is what became of one lease of a batch: as the results of Renewer.
type Renewal struct {
	Until time.Time
	Err   error
}

// Requeuer is a Backend that can release a name and wait for it again in one request. The client does so where others are known to wait: see
// Request.Contended and Grant.Contended.
type Requeuer interface {
	// Requeue releases old as Lease.Release does and claims its name anew with req, whose Queue is Capabilities.Queue, behind who already
	// waits. released is the outcome of the release; lease and err are those of the claim, as of Backend.TryAcquire.
	Requeue(ctx context.Context, old Lease, req Request) (lease Lease, released, err error)
}

// Attacher is a Backend whose claims can pass from one client to another. Capabilities.Detach says that this works.
type Attacher interface {
	// Detach renews the claim of lease, which is neither shared nor a permit, for the last time, and frees what the driver keeps for it: the claim ends after its TTL, also
	// while this client lives, unless it is attached. ErrLost: the claim is gone. ErrUnavailable, ErrRefused: all is as before. Any other error:
	// unknown, and the client counts the claim as lost. It calls nothing else for lease afterwards, save Release.
	Detach(ctx context.Context, lease Lease) error
	// Attach gives the claim of owner on req.Name, whose token is token, to req.Owner, and begins its TTL, in one step, as if req had been granted. Of several calls
	// for one claim, one alone is granted; one with the Owner that has it already may be granted again. Grant.Token is token. ErrLost: owner
	// does not have the name, and the call certainly has no effect. Otherwise it returns what Backend.TryAcquire does, save ErrHeld.
	Attach(ctx context.Context, req Request, owner string, token uint64) (Lease, error)
}

// LeaseAs is a Lease that offers its own view to Lock.As: it sets target, a non-nil pointer, if it knows its type.
type LeaseAs interface {
	As(target any) bool
}

// Status is a server's knowledge of a name.
type Status struct {
	Name    string    // the lock's name
	Held    bool      // false: nobody has it
	Owner   string    // the owner id, or a foreign client's value; if the server knows only the session, an id of it in the same form
	Foreign bool      // the holder is not a lockport client
	Token   uint64    // the driver's token, 0 if unknown
	Since   time.Time // since when, zero if unknown
	Expires time.Time // when it ends if the holder is not heard of again, zero if unknown or never
	Waiters int       // waiting clients that the server knows of, -1 if it cannot know

	Shared  bool     // the holder shares the name
	Permits int      // not 0: the holder has one of so many permits of the name, or of a number that is not known if it is negative
	Others  []Status // where the name is shared, or has permits: the other holders, in no order. Of them only what says who they are is set, as far as it is known.
}

// Inspector is a Backend that can look at locks without touching them.
type Inspector interface {
	// Inspect looks at the lock of name, and where nobody has that, at its permits.
	Inspect(ctx context.Context, name string) (Status, error)
	// List returns the status of names that start with prefix and are held or waited for, in no particular order. With an error they are not all.
	// errors.ErrUnsupported: the server does not know the names.
	List(ctx context.Context, prefix string) ([]Status, error)
}

// Breaker is a Backend that can end another client's claim by force.
type Breaker interface {
	// Break ends the claim of owner, as Inspect gave it, on name. ErrLost: that owner no longer has it.
	Break(ctx context.Context, name, owner string) error
}

// SessionBreaker is a Breaker whose server ends sessions, not claims. Its Break returns a *SharedSessionError where the session has other locks.
type SessionBreaker interface {
	Breaker
	// BreakSession ends the session of owner's claim on name, and with it all that the session holds. ErrLost: as of Break.
	BreakSession(ctx context.Context, name, owner string) error
}

// SharedSessionError is why Break has ended nothing: the session of the claim has, or may have, other locks, which would be lost with it. It is
// ErrRefused.
type SharedSessionError struct {
	Session string   // the server's name of the session: "process 4711"
	Others  int      // how many other locks it has, -1 if that cannot be known
	Names   []string // the names of those that are known by name, at most Others
}

// Error implements error.
func (e *SharedSessionError) Error() string {
	if e.Others < 0 {
		return fmt.Sprintf("%v: the holder's session (%s) may have other locks, which would be lost with it", ErrRefused, e.Session)
	}
	return fmt.Sprintf("%v: the holder's session (%s) has %d other locks, which would be lost with it", ErrRefused, e.Session, e.Others)
}

// Is makes errors.Is(err, ErrRefused) true.
func (e *SharedSessionError) Is(target error) bool { return target == ErrRefused }

// Checker is a Backend that can check its server. Open calls it, and so does the doctor command.
type Checker interface {
	// Check verifies that the server answers, accepts this client, and can hold locks. An error (ErrUnavailable, ErrRefused)
	// states in one line the problem and the remedy. Notices report server settings and state that put locks at risk. What
	// the server does not reveal is a notice too, never an error. Check sends a few cheap requests, because every program
	// that opens the backend calls it, and it returns soon after ctx ends.
	Check(ctx context.Context) ([]Notice, error)
}

// Notice reports something about a server that puts locks at risk.
type Notice struct {
	ID      string // short and stable, such as "eviction-policy"
	Unknown bool   // the server did not let the client find out
	Text    string // the finding and the risk
	Remedy  string // what to do
}
