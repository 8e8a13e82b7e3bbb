package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
)

// answers are those of etcd after which a request certainly had no effect, and will have none: until it is sent again (unavailable), or until
// somebody changes something (refused).
var answers = []struct {
	err, class error
	text       string
}{
	{rpctypes.ErrAuthFailed, driver.ErrRefused, "etcd does not know this user, or not with this password: check both"},
	{rpctypes.ErrUserEmpty, driver.ErrRefused, "etcd wants a user and a password: give it them"},
	{rpctypes.ErrInvalidAuthToken, driver.ErrRefused, "etcd does not accept the client's token: give it a user and a password"},
	{rpctypes.ErrPermissionDenied, driver.ErrRefused, "the user may not read and write the locks' keys: grant a role of its readwrite on their prefix"},
	{rpctypes.ErrLeaseTTLTooLarge, driver.ErrRefused, "the TTL is longer than etcd allows: use a shorter one"},
	{rpctypes.ErrTooManyOps, driver.ErrRefused, "etcd's limit of operations in a transaction is too low: set --max-txn-ops to 128, its default"},
	{rpctypes.ErrRequestTooLarge, driver.ErrRefused, "etcd's limit of the size of a request is too low: set --max-request-bytes to 1.5 MiB, its default"},
	{rpctypes.ErrNotCapable, driver.ErrRefused, "this etcd is too old, or not upgraded on all members: 3.4 or newer is needed"},

	{rpctypes.ErrNoLeader, driver.ErrUnavailable, "the member of etcd that was asked has no leader: is a majority of the members running and connected?"},
	{rpctypes.ErrNoSpace, driver.ErrUnavailable, "etcd is out of space: compact and defragment it, or raise --quota-backend-bytes, then disarm the alarm (etcdctl alarm disarm)"},
	{rpctypes.ErrTooManyRequests, driver.ErrUnavailable, "etcd has too many requests to apply: give it less to do"},
	{rpctypes.ErrAuthOldRevision, driver.ErrUnavailable, "etcd's users or roles are being changed"},
	{rpctypes.ErrLeaseNotFound, driver.ErrUnavailable, "the lease that the lock was to be attached to has ended"},
}

// classify puts an error of clientv3 into a class of the driver. late: the request may have an effect later, or had it.
func classify(ctx context.Context, err error, late bool) error {
	if err == nil {
		return nil
	}
	known := rpctypes.Error(err)
	for _, a := range answers {
		if !errors.Is(known, a.err) {
			continue
		}
		if late && a.err == rpctypes.ErrNoSpace { // what fills etcd is carried out all the same
			a.class = driver.ErrUnknown
		}
		return fmt.Errorf("%w: %s (%w)", a.class, a.text, a.err)
	}
	var answer rpctypes.EtcdError
	if errors.As(known, &answer) {
		switch answer.Code() {
		case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange:
			return fmt.Errorf("%w: %w", driver.ErrRefused, known)
		}
	}
	class, what := driver.ErrUnknown, "no answer from etcd yet"
	if !late {
		class, what = driver.ErrUnavailable, "etcd could not be asked in time"
	}
	if ended := contextError(ctx, err); ended != nil {
		return fmt.Errorf("%w: %s: %w", class, what, ended)
	}
	return fmt.Errorf("%w: %s", class, text(err))
}

// contextError is the error of ctx if that is why err came. A deadline that has passed is seen by gRPC a moment sooner than by others.
func contextError(ctx context.Context, err error) error {
	for _, e := range []error{ctx.Err(), context.DeadlineExceeded, context.Canceled} {
		if e != nil && (e == ctx.Err() || errors.Is(err, e)) {
			return e
		}
	}
	if _, limited := ctx.Deadline(); limited && status.Code(err) == codes.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return nil
}

// text is what err says, without what gRPC puts around it.
func text(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// certain reports that a request whose error this is had no effect, and will have none.
func certain(err error) bool {
	return errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused)
}

// isFull reports that etcd is out of space.
func isFull(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) }

// isGone reports that etcd does not know the lease.
func isGone(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }
