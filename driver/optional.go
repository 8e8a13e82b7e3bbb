package driver

import (
	"context"
	"fmt"
	"time"
)

// Unwrapper is implemented by a Backend that wraps another one (to count, trace or delay its calls). As looks up the optional interfaces below
// through it, so a plain wrapper loses nothing.
type Unwrapper interface {
	Unwrap() Backend
}

// As returns the first Backend in the chain of Unwrap that implements T.
func As[T any](b Backend) (t T, ok bool) {
	for {
		if t, ok = b.(T); ok {
			return t, true
		}
		u, wraps := b.(Unwrapper)
		if !wraps {
			return t, false
		}
		b = u.Unwrap()
	}
}

// Waiter is a Backend whose server has its own queue in which a claim can wait.
type Waiter interface {
	// Wait claims as Backend.TryAcquire does, but blocks until the claim is granted, ctx ends, or an error other than ErrHeld occurs. If ctx ends,
	// the outcome is unknown and the client abandons the claim. Wait may return ErrHeld if it cannot wait now (for example, no free connection). The
	// client then waits as for a backend without Waiter.
	Wait(ctx context.Context, req Request) (Lease, error)
}

// Notifier is a Backend that can notify when a name may have become free. Notifications are advice: one may be missing, since the client also polls
// (see HeldError), and there may be too many.
type Notifier interface {
	// Notify calls wake whenever the claim req, which found the name held, should be tried again. The client calls Notify once for a wait, however
	// often it tries. wake never blocks and may be called from any goroutine. stop ends this; wake may be called once more after stop has returned.
	// Notify waits for no I/O: a driver that must connect or subscribe first does so in the background, and calls wake once it listens, also after
	// each loss of its connection. A notification that came after req was sent and before this call counts too: wake is called for it at once.
	Notify(req Request, wake func()) (stop func())
}

// BatchRenewer is a Backend that renews many leases in a few round trips.
type BatchRenewer interface {
	// RenewBatch renews leases as Renewer does, in as few round trips as it can. All are of this Backend and have one TTL. It writes the result of
	// each to the same index of results; len(results) == len(leases). The client passes any number of leases, but never the same lease twice at once.
	// ctx ends no later than the last of their validities: some may have ended before.
	RenewBatch(ctx context.Context, leases []Lease, results []Renewal)
}

// Renew renews lease, which b granted, as lockport does: in a batch of one, or individually. It is for tests and tools.
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

// Renewal is the result for one lease of a batch, as Renewer.Renew returns it.
type Renewal struct {
	Until time.Time
	Err   error
}

// Requeuer is a Backend that can release a name and wait for it again in one request. The client uses it when other clients are known to wait: see
// Request.Contended and Grant.Contended.
type Requeuer interface {
	// Requeue releases old as Lease.Release does, and claims its name again with req, behind the clients that already wait. req.Queue is
	// Capabilities.Queue. released is the outcome of the release; lease and err are those of the claim, as from Backend.TryAcquire.
	Requeue(ctx context.Context, old Lease, req Request) (lease Lease, released, err error)
}

// Attacher is a Backend whose claims can pass from one client to another. Capabilities.Detach says that it works.
type Attacher interface {
	// Detach renews the claim of lease, which is neither shared nor a permit, one last time, and frees what the driver keeps for it. The claim then
	// ends after its TTL unless it is attached, even while this client lives. ErrLost: the claim is gone. ErrUnavailable, ErrRefused: nothing has
	// changed. Any other error: unknown, and the client treats the claim as lost. Unless nothing has changed, the client afterwards calls nothing but
	// Release for lease.
	Detach(ctx context.Context, lease Lease) error
	// Attach transfers the claim of owner on req.Name, whose token is token, to req.Owner, and starts its TTL, in one step, as if req had been
	// granted. Of several calls for one claim only one is granted; a call whose Owner already has the claim may be granted again. Grant.Token is
	// token. ErrLost: owner does not have the name, and the call certainly has no effect. Otherwise it returns what Backend.TryAcquire does, except
	// ErrHeld.
	Attach(ctx context.Context, req Request, owner string, token uint64) (Lease, error)
}

// LeaseAs is a Lease that offers its own view to Lock.As. As sets target, a non-nil pointer, if it knows target's type.
type LeaseAs interface {
	As(target any) bool
}

// Status is what a server knows about a name.
type Status struct {
	Name    string    // the lock's name
	Held    bool      // false: nobody holds it
	Owner   string    // the owner id, or a foreign client's value; if the server knows only the session, its id in the same form
	Foreign bool      // the holder is not a lockport client
	Token   uint64    // the driver's token, 0 if unknown
	Since   time.Time // when it was granted, zero if unknown
	Expires time.Time // when it ends if the holder goes silent, zero if unknown or never
	Waiters int       // waiting clients that the server knows of, -1 if it cannot know

	Shared  bool     // the holder shares the name
	Permits int      // not 0: the holder has one of this many permits; negative: their number is unknown
	Others  []Status // the other holders of a shared name or of permits, in no order; only what identifies them is set, as far as known
}

// Inspector is a Backend that can look at locks without touching them.
type Inspector interface {
	// Inspect looks at the lock of name, or at its permits if nobody holds the lock. It changes nothing: its errors, like those of List, are not
	// ErrUnknown.
	Inspect(ctx context.Context, name string) (Status, error)
	// List returns the status of names that start with prefix and are held or waited for, in no particular order. With an error the list is
	// incomplete. errors.ErrUnsupported: the server does not know the names.
	List(ctx context.Context, prefix string) ([]Status, error)
}

// Breaker is a Backend that can end another client's claim by force.
type Breaker interface {
	// Break ends the claim of owner, as Inspect reported it, on name. ErrLost: that owner no longer has it.
	Break(ctx context.Context, name, owner string) error
}

// SessionBreaker is a Breaker whose server ends sessions, not claims. Its Break returns a *SharedSessionError where the session has other locks.
type SessionBreaker interface {
	Breaker
	// BreakSession ends the session of owner's claim on name, and with it all that the session holds. ErrLost: as of Break.
	BreakSession(ctx context.Context, name, owner string) error
}

// SharedSessionError reports why Break ended nothing: the claim's session has, or may have, other locks, which would be lost with it. It matches
// ErrRefused.
type SharedSessionError struct {
	Session string   // the server's name of the session: "process 4711"
	Others  int      // how many other locks it has, -1 if that cannot be known
	Names   []string // the names of those that are known, at most Others
}

// Error implements error.
func (e *SharedSessionError) Error() string {
	if e.Others < 0 {
		return fmt.Sprintf("%v: the holder's session (%s) may have other locks, which would be lost with it", ErrRefused, e.Session)
	}
	return fmt.Sprintf("%v: the holder's session (%s) has other locks (%d), which would be lost with it", ErrRefused, e.Session, e.Others)
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
	ID      string `json:"id"`     // short and stable, such as "eviction-policy"
	Unknown bool   `json:"-"`      // the server did not let the client find out
	Text    string `json:"text"`   // the finding and the risk
	Remedy  string `json:"remedy"` // what to do
}
