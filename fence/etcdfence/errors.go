package etcdfence

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/fencecheck"
)

// refused is the error of a token that is not the registered one, which is seen.
func (g *Guard) refused(seen string) error {
	return fmt.Errorf("etcdfence: %w", fencecheck.Refuse(g.fence.key, g.token, seen))
}

// lost is the error of a lock whose key is gone.
func (g *Guard) lost() error { return fmt.Errorf("etcdfence: %w", fencecheck.Lost(g.lock.Key)) }

// explain makes the error of a request of err, which came from clientv3. What etcd itself answered passes unchanged.
func (g *Guard) explain(did string, err error) error {
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) {
		return fmt.Errorf("etcdfence: %s at %q: %w", did, g.fence.key, err)
	}
	why := "no answer from etcd yet"
	if c := g.fence.client.ActiveConnection(); c != nil && c.GetState() != connectivity.Ready {
		why = "etcd cannot be reached, is it running and is the address right?"
	}
	if s, ok := status.FromError(err); ok { // without what gRPC puts around it
		return fmt.Errorf("etcdfence: %s at %q: %w: %s (%s)", did, g.fence.key, driver.ErrUnknown, why, s.Message())
	}
	return fmt.Errorf("etcdfence: %s at %q: %w: %s: %w", did, g.fence.key, driver.ErrUnknown, why, err)
}
