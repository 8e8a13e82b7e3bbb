package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
)

// answers are etcd's errors for requests that certainly had no effect. They will have none until sent again (unavailable), or until
// somebody changes something (refused).
var answers = []struct {
	err, class error
	text       string
}{
	{rpctypes.ErrAuthFailed, driver.ErrRefused, "etcd rejected the user or password: check both"},
	{rpctypes.ErrUserEmpty, driver.ErrRefused, "etcd requires a user and a password: configure both"},
	{rpctypes.ErrPermissionDenied, driver.ErrRefused, "the user may not read and write the locks' keys: grant one of its roles readwrite on their prefix"},

	{rpctypes.ErrNoLeader, driver.ErrUnavailable, "the etcd member has no leader: is a majority of the members running and connected?"},
	{rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner), driver.ErrUnavailable, "the etcd member is a learner: promote it, or connect to the voting members"},
	{rpctypes.ErrNoSpace, driver.ErrUnavailable, "etcd is out of space: compact and defragment it, or raise --quota-backend-bytes, then disarm the alarm (etcdctl alarm disarm)"},
	{rpctypes.ErrTooManyRequests, driver.ErrUnavailable, "etcd has too many requests to apply: reduce its load"},
	{rpctypes.ErrAuthOldRevision, driver.ErrUnavailable, "etcd's users or roles are being changed"},
	{rpctypes.ErrInvalidAuthToken, driver.ErrUnavailable, "the etcd member does not know the new token: is it behind, or do the JWT keys differ?"},
	{rpctypes.ErrLeaseNotFound, driver.ErrUnavailable, "the lease for the lock has ended"},
}

// classify gives an error of clientv3 its driver class. late: the request may take effect later, or already did.
func classify(ctx context.Context, err error, late bool) error {
	if err == nil {
		return nil
	}
	known := rpctypes.Error(err)
	for _, a := range answers {
		if !errors.Is(known, a.err) {
			continue
		}
		if late && a.err == rpctypes.ErrNoSpace { // etcd still executes the request that filled it
			a.class = driver.ErrUnknown
		}
		return fmt.Errorf("%w: %s (%w)", a.class, a.text, a.err)
	}
	code := status.Code(err)
	if answer, ok := errors.AsType[rpctypes.EtcdError](known); ok {
		code = answer.Code()
	}
	switch code { // such as kine's, which is not etcd, for a transaction of this kind
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return fmt.Errorf("%w: %s", driver.ErrRefused, status.Convert(known).Message())
	}
	class := driver.ErrUnknown
	if !late {
		class = driver.ErrUnavailable
	}
	if ended := contextError(ctx, err); ended != nil {
		return fmt.Errorf("%w: no answer from etcd in time: %w", class, ended)
	}
	return fmt.Errorf("%w: %s", class, status.Convert(err).Message())
}

// contextError returns ctx's error if that caused err. gRPC sees a deadline pass slightly earlier than ctx does.
func contextError(ctx context.Context, err error) error {
	for _, e := range []error{ctx.Err(), context.DeadlineExceeded, context.Canceled} {
		if e != nil && (e == ctx.Err() || errors.Is(err, e)) {
			return e
		}
	}
	if d, limited := ctx.Deadline(); limited && (status.Code(err) == codes.DeadlineExceeded || !time.Now().Before(d)) {
		return context.DeadlineExceeded
	}
	return nil
}

// certain reports whether a request that failed with err certainly has no effect, now or later.
func certain(err error) bool {
	return errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused)
}
