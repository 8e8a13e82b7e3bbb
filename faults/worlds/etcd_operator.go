package worlds

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport/internal/lab/servers"
)

// atEtcd lends a client of one member, and of no other, to whom it was asked for by an operator.
func atEtcd(node *servers.Etcd, use func(c *clientv3.Client) error) (err error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{node.Addr()}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return use(c)
}

// etcdServes waits until a member answers a read for which it asks the leader.
func etcdServes(ctx context.Context, node *servers.Etcd) error {
	return atEtcd(node, func(c *clientv3.Client) error {
		return eventually(ctx, func(ctx context.Context) error {
			_, err := c.Get(ctx, "serves")
			return err
		})
	})
}

// etcdClaim is the key whose claim holds the lock on name.
func etcdClaim(ctx context.Context, c *clientv3.Client, name string) (*mvccpb.KeyValue, error) {
	keys := "lockport/" + strings.NewReplacer("%", "%25", "/", "%2F").Replace(name) + "/"
	r, err := c.Get(ctx, keys, clientv3.WithFirstCreate()...)
	if err != nil {
		return nil, err
	}
	if len(r.Kvs) == 0 {
		return nil, fmt.Errorf("%w: etcd has no key below %s", errNotHeld, keys)
	}
	return r.Kvs[0], nil
}

// deleteKey deletes the key of the claim that holds the lock on name.
func (w *etcds) deleteKey(ctx context.Context, name string) error {
	return atEtcd(w.nodes[0], func(c *clientv3.Client) error {
		kv, err := etcdClaim(ctx, c, name)
		if err != nil {
			return err
		}
		r, err := c.Delete(ctx, string(kv.Key))
		if err == nil && r.Deleted != 1 {
			err = errNotHeld
		}
		return err
	})
}

// revokeLease revokes the lease of the claim that holds the lock on name.
func (w *etcds) revokeLease(ctx context.Context, name string) error {
	return atEtcd(w.nodes[0], func(c *clientv3.Client) error {
		kv, err := etcdClaim(ctx, c, name)
		if err != nil {
			return err
		}
		_, err = c.Revoke(ctx, clientv3.LeaseID(kv.Lease))
		return err
	})
}
