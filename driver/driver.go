// Package driver defines the interface of a lock backend. Applications do not use it: they use the package lockport, which
// turns a Backend into a Locker and does, once and for all backends, everything that is hard to get right: waiting in
// order, renewal, validity, loss, hand-off inside the process, unknown outcomes, clean-up.
//
// # Two words
//
// A claim is an owner id that asks for, or has, a name at the server. A hold is a caller's handle with a token. A claim serves one hold, or
// several in turn; only a shared one serves several at
// once. A driver knows claims only.
// The client makes claims on contexts of its own, save the first attempt of a driver whose Capabilities say Prompt, which has the
// caller's values and deadline. It cancels the context of a call as soon as that has returned: a lease must not keep it.
//
// # What a driver does, and what it never does
//
//   - It claims, renews and releases, each in as few requests as its system allows, and reports what the server said.
//   - It never retries, renews, logs, sleeps in order to retry, or reads the environment, and its constructor does no I/O.
//     What a user should know about the server is returned by Check as notices.
//   - It alone computes until when a grant is valid (see Grant.Until). The client only subtracts a margin.
//   - When it cannot know what became of a claim, it says so with ErrUnknown, and never guesses. The client then
//     calls Abandon until that returns nil.
//
// All methods may be called concurrently, also for the same name with different owners. The client never calls two
// methods at once for the same claim, with two exceptions: Abandon may be called while an earlier call for the same
// Request, whose context has ended, is still on its way; and the callbacks of Request may run at any time. It gives leases only to the Backend that
// granted them.
//
// A call should return soon after its context ends. Many client libraries cannot do that: unless Capabilities.Prompt is stated, the client therefore
// makes calls on goroutines that it can leave behind, and no caller waits for them.
//
// Everything is proven by the package conformance; a third party's driver runs it in under thirty lines.
package driver

import (
	"context"
	"time"
)

// Backend claims names in one system.
type Backend interface {
	// TryAcquire makes one claim, without waiting for another holder. It returns
	//
	//   - a Lease, when the server granted the claim;
	//   - an error matching ErrHeld, best a *HeldError, when another owner has the name or, where the server keeps a queue, is next;
	//   - ErrUnavailable, when the claim certainly has no effect now or later and trying again may help;
	//   - ErrRefused, when it certainly has no effect and trying again does not help;
	//   - ErrUnknown, or any other error, when it may have been granted or may still be granted.
	//
	// TryAcquire with the Owner of a claim that the server already granted may return a Lease or ErrHeld; it must not
	// grant twice. When ctx ends first, the error matches ctx.Err() too.
	TryAcquire(ctx context.Context, req Request) (Lease, error)

	// Abandon makes sure that req, whose outcome is unknown, is not held and cannot become held, and that its place in
	// a queue of the server is given up. It is idempotent and finds the claim by req.Name, req.Owner, req.Shared and req.Permits
	// alone. It
	// returns nil only when certain; the client repeats it, with pauses, until it does.
	Abandon(ctx context.Context, req Request) error

	// Capabilities states what this backend, as configured, promises. It does no I/O and always returns the same value.
	Capabilities() Capabilities

	// Close frees the backend's own resources. The client calls it once, after everything else has returned or has
	// been given up. Claims that are still held end as if their process had died.
	Close() error
}

// Request is one claim.
type Request struct {
	// Name is the lock's name: valid UTF-8 of 1 to MaxNameLength bytes. Distinct names never share a lock.
	Name string

	// Owner identifies the claim: 32 hexadecimal digits from 128 random bits, a colon, and the part that
	// OwnerClient returns: who asks, for people to read, the same for all claims of one client. At most
	// MaxOwnerLength bytes of printable ASCII without spaces.
	Owner string

	// TTL is at most how long after its holder fell silent the name may be granted again. Always positive. A driver
	// whose server counts in a coarser grain rounds up.
	TTL time.Duration

	// Permits, if positive, asks for one of that many permits of the name, which has nothing to do with the lock of that name. At most that many claims of
	// the name with Permits are held at a time. A driver that detects another number in use returns ErrInvalidOption, as ErrRefused.
	// Only with Capabilities.Permits.
	Permits int

	// Shared asks for the name beside others that share it, and beside nobody else. Only with Capabilities.Shared.
	Shared bool

	// Queue says that the caller means to wait: a driver with Capabilities.Queue enters Owner into the queue that its
	// server keeps for the name when the claim is not granted at once. It stays there until it is granted or abandoned.
	Queue bool

	// Lost, if not nil, tells that the claim is gone, with the reason. It is called at most once, from any goroutine,
	// never blocks, and may be called before TryAcquire has returned. A driver that can only learn of a loss by
	// renewing does not call it.
	Lost func(error)

	// Contended, if not nil, tells that another client waits for the name. It may be called any number of times, also
	// before TryAcquire has returned, and never blocks. It is advice: the client bounds hand-off with it.
	Contended func()
}

// Limits on what the client puts into a Request.
const (
	MaxNameLength  = 1024
	MaxOwnerLength = 256
	// MaxToken is the greatest token that a driver may return, 2^53 - 1: a double holds it exactly.
	MaxToken = 1<<53 - 1
	// MaxPermits is the greatest number of permits of a name.
	MaxPermits = 1024
	// TokensPerGrant is what the client multiplies the token of a grant by, so that each hold that the grant serves has a token of its own: the
	// first one's is the product, and the others follow.
	TokensPerGrant = 1024
)

// Lease is a granted claim.
type Lease interface {
	// Grant returns the server's grant. It does no I/O and always returns the same value.
	Grant() Grant

	// Release gives the name up and wakes its waiters. nil: the claim has certainly ended. ErrLost: the server no longer has the claim. Any
	// other error: unknown. The client calls it for every lease, also for one that was lost, so that what the driver keeps for
	// it can be freed here; the only exception is a claim whose renewal outstays its context, which is abandoned.
	//
	// The client remembers the outcome. After nil or ErrLost it does not call Release again. After an unknown outcome it does, and takes ErrLost
	// before the end of the validity as success: so a driver reports the server's answer and remembers nothing.
	Release(ctx context.Context) error
}

// Renewer is a Lease that can be renewed by itself. A lease whose Grant has an end (Until) is a Renewer, or its Backend is a BatchRenewer, which
// the client prefers: it refuses a lease with an end that nothing can renew.
type Renewer interface {
	// Renew extends the claim by its TTL and returns its new validity, computed as for Grant.Until, which never is
	// before an earlier one. ErrLost: the claim is known to be gone. Any other error: unknown, and nothing has been
	// promised; the client tries again until the last known validity ends. Not called where Until is zero.
	// The client waits for it, and so for the end of ctx, before it releases the claim.
	Renew(ctx context.Context) (until time.Time, err error)
}

// Grant describes a granted claim.
type Grant struct {
	// Token is the fencing token: greater than that of every earlier grant of the name, from 1 to MaxToken; 0 where
	// Capabilities.Token is TokenNone.
	Token uint64

	// Until is the instant before which the server cannot grant the name to anybody else, if nothing more is heard. It
	// carries a monotonic clock reading (time.Now and Add keep it) and is counted from the moment *before* the
	// request was sent that last set or confirmed the expiry: for a lease that many claims share, its last confirmed
	// keep-alive; for a claim won by waiting, the wait itself or a confirming request of its own. Zero: the claim ends only with its
	// session or process, of which Request.Lost tells.
	Until time.Time

	// Contended says that another client was known to wait when the name was granted.
	Contended bool
}
