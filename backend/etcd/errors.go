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

// refusals are the answers of etcd after which a request certainly had no effect, and will have none until somebody changes something,
// with what to do.
var refusals = []struct {
	err  error
	text string
}{
	{rpctypes.ErrAuthFailed, "etcd does not know this user, or not with this password: check both"},
	{rpctypes.ErrUserEmpty, "etcd wants a user and a password: give it them"},
	{rpctypes.ErrInvalidAuthToken, "etcd does not accept the client's token: give it a user and a password"},
	{rpctypes.ErrPermissionDenied, "the user may not read and write the locks' keys: grant a role of its readwrite on their prefix"},
	{rpctypes.ErrLeaseTTLTooLarge, "the TTL is longer than etcd allows: use a shorter one"},
	{rpctypes.ErrTooManyOps, "etcd's limit of operations in a transaction is too low: set --max-txn-ops to 128, its default"},
	{rpctypes.ErrRequestTooLarge, "etcd's limit of the size of a request is too low: set --max-request-bytes to 1.5 MiB, its default"},
	{rpctypes.ErrNotCapable, "this etcd is too old, or not upgraded on all members: 3.4 or newer is needed"},
}

// passing are the answers of etcd after which a request certainly had no effect, and may have one when it is sent again.
var passing = []struct {
	err  error
	text string
}{
	{rpctypes.ErrNoLeader, "the member of etcd that was asked has no leader: is a majority of the members running and connected?"},
	{rpctypes.ErrNoSpace, "etcd is out of space: compact and defragment it, or raise --quota-backend-bytes, then disarm the alarm (etcdctl alarm disarm)"},
	{rpctypes.ErrTooManyRequests, "etcd has too many requests to apply: give it less to do"},
	{rpctypes.ErrAuthOldRevision, "etcd's users or roles are being changed"},
	{rpctypes.ErrLeaseNotFound, "the lease that the lock was to be attached to has ended"},
}

// classify puts an error of a request that changes something into a class of the driver. sent: the request has, or may have, left.
func classify(ctx context.Context, err error, sent bool) error {
	if err == nil {
		return nil
	}
	if known := rejection(err); known != nil {
		return known
	}
	if ended := contextError(ctx, err); ended != nil {
		if sent {
			return fmt.Errorf("%w: no answer from etcd yet: %w", driver.ErrUnknown, ended)
		}
		return fmt.Errorf("%w: etcd could not be asked in time: %w", driver.ErrUnavailable, ended)
	}
	if !sent {
		return fmt.Errorf("%w: etcd cannot be reached, is it running and is the address right? (%s)", driver.ErrUnavailable, text(err))
	}
	return fmt.Errorf("%w: %s", driver.ErrUnknown, text(err))
}

// classifyRead is classify for a request that changes nothing.
func classifyRead(ctx context.Context, err error) error { return classify(ctx, err, false) }

// rejection is the class of an answer after which it is certain that nothing has happened; nil if err is none.
func rejection(err error) error {
	known := rpctypes.Error(err)
	for _, r := range refusals {
		if errors.Is(known, r.err) {
			return &rejected{driver.ErrRefused, fmt.Sprintf("%s (%s)", r.text, text(err)), r.err}
		}
	}
	for _, r := range passing {
		if errors.Is(known, r.err) {
			return &rejected{driver.ErrUnavailable, fmt.Sprintf("%s (%s)", r.text, text(err)), r.err}
		}
	}
	var answer rpctypes.EtcdError
	if errors.As(known, &answer) {
		switch answer.Code() {
		case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange:
			return &rejected{driver.ErrRefused, text(err), known}
		}
	}
	var broken *tlsError
	if errors.As(err, &broken) {
		return &rejected{driver.ErrRefused, broken.Error(), broken}
	}
	return nil
}

// rejected is an error of a request that etcd has answered, or that could not be sent: it certainly had no effect.
type rejected struct {
	class error
	text  string
	cause error
}

func (e *rejected) Error() string   { return e.class.Error() + ": " + e.text }
func (e *rejected) Unwrap() []error { return []error{e.class, e.cause} }

// isRejected reports that a classified error is of a request that etcd has rejected.
func isRejected(err error) bool {
	var r *rejected
	return errors.As(err, &r)
}

// contextError is the error of ctx if that is why err came. A deadline that has passed is seen by gRPC a moment sooner than by others.
func contextError(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	for _, e := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, e) {
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

// isFull reports that etcd is out of space. It may have carried out the request all the same: the one that fills it is.
func isFull(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) }

// isGone reports that etcd does not know the lease.
func isGone(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }
