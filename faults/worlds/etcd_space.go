package worlds

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

var etcdSpaceCells = []faults.Cell{{
	Fault: "out-of-space", Outcome: faults.Safe, Strike: etcdOutOfSpace,
	Why: "Who holds a lock goes on to renew it and can release it, which needs no space; new claims are refused before the alarm is disarmed, but who is in the queue " +
		"already has its key there, and gets the lock in turn.",
}}

// ballast is the key that the space is filled with, a version of it for each write.
const ballast = "ballast"

// etcdOutOfSpace fills the database until the cluster has its alarm raised, and makes space again.
func etcdOutOfSpace(ctx context.Context, p *faults.Phase) error {
	w := etcdsOf(p)
	p.Struck()
	if err := atEtcd(w.nodes[p.Rand.IntN(len(w.nodes))], func(c *clientv3.Client) error { return fill(ctx, c) }); err != nil {
		return err
	}
	if err := p.Sleep(ctx, p.Between(p.World.TTL/2, p.World.TTL*3/2)); err != nil {
		return err
	}
	if err := w.makeSpace(ctx); err != nil {
		return err
	}
	p.Mended()
	return nil
}

// fill writes until there is no space left.
func fill(ctx context.Context, c *clientv3.Client) error {
	value := string(make([]byte, 1<<20))
	for range 2 * etcdQuota / len(value) {
		_, err := c.Put(ctx, ballast, value)
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace):
			return nil
		case err != nil && !errors.Is(err, rpctypes.ErrTimeout): // it is busy
			return err
		}
	}
	return errors.New("etcd takes twice its quota")
}

// makeSpace does what the error of an etcd that is out of space says: compact it, defragment it, disarm the alarm.
func (w *etcds) makeSpace(ctx context.Context) error {
	return atEtcd(w.nodes[0], func(c *clientv3.Client) error {
		alarms, err := c.AlarmList(ctx)
		if err != nil || len(alarms.Alarms) == 0 {
			return err
		}
		now, err := c.Get(ctx, ballast, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		_, err = c.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return fmt.Errorf("compact: %w", err)
		}
		for _, node := range w.nodes {
			if err := defragment(ctx, node); err != nil {
				return fmt.Errorf("defragment %s: %w", node.Addr(), err)
			}
		}
		_, err = c.AlarmDisarm(ctx, &clientv3.AlarmMember{}) // all
		return err
	})
}

func defragment(ctx context.Context, node *servers.Etcd) error {
	return atEtcd(node, func(c *clientv3.Client) error {
		_, err := c.Defragment(ctx, node.Addr())
		return err
	})
}
