// Package driver defines the interface of a lock backend. Applications use the package lockport instead, which turns a Backend into a Locker. It does
// the hard parts once for all backends: FIFO waiting, renewal, validity, loss, hand-off within the process, unknown outcomes, clean-up.
//
// # Claims and holds
//
// A claim is an owner id that requests or has a name at the server. A hold is a caller's handle with a token. A claim serves one hold at a time; only
// a shared claim serves several at once. A driver knows claims only.
//
// The client makes claims with contexts of its own, which have the values of the caller's. The exception: if Capabilities.Prompt is set, the first
// attempt also has the caller's deadline and cancellation. The client cancels the context of a call when the call returns, so a lease must not keep it.
//
// # What a driver does and does not do
//
//   - It claims, renews and releases, each in as few requests as its system allows, and reports what the server answered.
//   - It never retries or renews on its own. It never logs, sleeps between attempts, or reads the environment. Its constructor does no I/O. Check
//     returns what users should know about the server, as notices.
//   - It alone computes until when a grant is valid (see Grant.Until). The client only subtracts a margin.
//   - If it cannot know the outcome of a claim, it returns ErrUnknown and never guesses. The client then calls Abandon until that returns nil.
//
// All methods may be called concurrently, also for the same name with different owners. For one claim the client makes one call at a time, with two
// exceptions. It may call Abandon while an earlier call for the same Request, whose context has ended, is still under way. The callbacks of Request
// may run at any time. The client passes a lease only to the Backend that granted it.
//
// A call should return soon after its context ends. Many client libraries cannot do that. Unless Capabilities.Prompt is set, the client therefore
// makes calls on goroutines that it can leave behind, and no caller waits for them. But a Release that never returns keeps its name from this process,
// and the client makes at most eight calls to Abandon at a time for claims that nobody waits for.
//
// The package conformance tests all of this. A third party's driver runs it in under thirty lines.
package driver

import (
	"context"
	"math"
	"time"
)

// Backend claims names in one system.
type Backend interface {
	// TryAcquire makes one claim, without waiting for another holder. It returns
	//
	//   - a Lease, when the server granted the claim;
	//   - an error matching ErrHeld, preferably a *HeldError, when another owner has the name or is next in the server's queue;
	//   - ErrUnavailable, when the claim certainly has no effect now or later, and another attempt may succeed;
	//   - ErrRefused, when the claim certainly has no effect, and another attempt would fail too;
	//   - ErrUnknown, or any other error, when the claim may have been granted or may still be granted.
	//
	// With Capabilities.Queue, the client does not repeat a claim without Request.Queue that was answered ErrHeld, ErrUnavailable or ErrRefused.
	//
	// If the server already granted a claim to req.Owner, TryAcquire may return a Lease or ErrHeld; it must not grant twice. The server keeps the
	// claim until that Lease's Until: it sets the expiry again, or Until stays the same. If ctx ends first, the error matches ctx.Err() too.
	TryAcquire(ctx context.Context, req Request) (Lease, error)

	// Abandon makes sure that req, whose outcome is unknown, is not held, cannot become held, and has left the server's queue. It is idempotent, and
	// finds the claim by req.Name, req.Owner, req.Shared and req.Permits alone. It returns nil only when certain; until then the client repeats it,
	// with pauses. A request of the claim may still reach the server up to a minute later: then it is neither granted nor queued. The client also
	// abandons claims with Request.Queue that failed with ErrUnavailable or ErrRefused; if no attempt left a place in the queue, a driver answers
	// without a request, which might fail for ever.
	Abandon(ctx context.Context, req Request) error

	// Capabilities states what this backend, as configured, promises. It does no I/O and always returns the same value.
	Capabilities() Capabilities

	// Close frees the backend's own resources. The client calls it once, after all other calls have returned or been given up. Claims still held end
	// as if their process had died.
	Close() error
}

// Request is one claim.
type Request struct {
	// Name is the lock's name: valid UTF-8 of 1 to MaxNameLength bytes. Distinct names never share a lock.
	Name string

	// Owner identifies the claim: 32 hexadecimal digits from 128 random bits, a colon, and the part that OwnerClient returns. That part describes the
	// client to people and is the same for all its claims. At most MaxOwnerLength bytes of printable ASCII without spaces.
	Owner string

	// TTL is the time after which, at the latest, the name becomes free if the holder goes silent. Always positive. A driver whose server uses a
	// coarser unit rounds up.
	TTL time.Duration

	// Permits, if positive, requests one of that many permits of the name, which are independent of the name's lock. At most that many claims with
	// Permits hold the name at a time. A driver that detects another number in use returns ErrInvalidOption with ErrRefused. Only with
	// Capabilities.Permits.
	Permits int

	// Shared requests the name together with others that share it, and with nobody else. Only with Capabilities.Shared.
	Shared bool

	// Queue says that the caller will wait. If the claim is not granted at once, a driver with Capabilities.Queue adds Owner to the server's queue
	// for the name. It stays there until it is granted or abandoned. The client repeats the claim, after HeldError.Poll at the latest. Once it no longer
	// does, Owner must not keep the name from others for longer than the TTL.
	Queue bool

	// Lost, if not nil, reports that the claim is gone, with the reason. It is called at most once, from any goroutine, never blocks, and may be
	// called before TryAcquire has returned. A driver that learns of a loss only by renewing does not call it.
	Lost func(error)

	// Contended, if not nil, reports that another client waits for the name. It may be called any number of times, also before TryAcquire has
	// returned, and never blocks. It is advice: the client bounds hand-off with it.
	Contended func()
}

// Limits on what the client puts into a Request.
const (
	MaxNameLength  = 1024
	MaxOwnerLength = 256
	// MaxToken is the greatest token that a driver may return, 2^53 - 1: a double holds it exactly.
	MaxToken = 1<<53 - 1
	// MaxTTL is the greatest TTL of a claim: 73 years, beyond any sensible one and far from overflow.
	MaxTTL time.Duration = math.MaxInt64 / 4
	// MaxPermits is the greatest number of permits of a name.
	MaxPermits = 1024
	// TokensPerGrant is the factor by which the client multiplies a grant's token, so that each hold of the grant has its own token. The first hold
	// gets the product, and later holds the numbers that follow.
	TokensPerGrant = 1024
)

// Lease is a granted claim.
type Lease interface {
	// Grant returns the server's grant. It does no I/O and always returns the same value.
	Grant() Grant

	// Release gives up the name and wakes its waiters. nil: the claim has certainly ended. ErrLost: the server no longer has the claim. Any other
	// error: unknown. The client calls Release for every lease, even a lost one, so that the driver can free what it keeps for the lease. The
	// exceptions: Requeue takes the place of Release, and after a Detach that returned nil there is none unless the hold ended during it. While a renewal
	// outlasts its context, the client calls Abandon instead. If that fails, it calls Release once the renewal has returned. After a Detach that
	// outlasted its context, it calls Abandon alone.
	//
	// The client remembers the outcome. After nil or ErrLost it does not call Release again. After an unknown outcome it does, and treats ErrLost
	// before the end of the validity as success. So a driver reports the server's answer and remembers nothing.
	Release(ctx context.Context) error
}

// Renewer is a Lease that can be renewed individually. A lease whose Grant.Until is set is a Renewer, or its Backend is a BatchRenewer, which the
// client prefers. The client refuses a lease that expires and that nothing can renew.
type Renewer interface {
	// Renew extends the claim by its TTL and returns its new validity, computed as for Grant.Until and never before an earlier one. ErrLost: the
	// claim is known to be gone. Any other error: unknown, and nothing is promised; the client retries until the last known validity ends. Not called
	// if Until is zero. Before it releases the claim, the client waits for Renew to return, for up to 5 s.
	Renew(ctx context.Context) (until time.Time, err error)
}

// Grant describes a granted claim.
type Grant struct {
	// Token is the fencing token: greater than that of every earlier grant of the name, from 1 to MaxToken; 0 where
	// Capabilities.Token is TokenNone.
	Token uint64

	// Until is the instant before which the server cannot grant the name to anybody else, if nothing more is heard. It carries a monotonic clock
	// reading (time.Now and Add keep it). It counts from *before* the request that last set or confirmed the expiry was sent. For a lease that many
	// claims share, that is its last confirmed keep-alive. For a claim won by waiting, it is the wait or a separate confirming request. Zero: the
	// claim ends only with its session or process, and Request.Lost reports that.
	Until time.Time

	// Contended says that another client was known to wait at the time of the grant.
	Contended bool
}
