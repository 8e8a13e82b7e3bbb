package environment

import (
	"context"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/internal/lab/servers"
)

// EtcdTick makes an election begin 0.6 to 1.2 s after the last heartbeat. With a shorter tick, a busy machine causes needless elections. With a longer
// one, an election after the leader's death outlasts the rest of a lease.
const EtcdTick = 60 * time.Millisecond

// Etcd is one etcd or a cluster.
type Etcd struct {
	base
	// Members are the servers.
	Members []*servers.Etcd
}

func startEtcds(o servers.EtcdOptions) starter {
	o.Tick, o.Cuttable = EtcdTick, true
	return starts(servers.StartEtcdCluster, o, func(c *servers.Group[*servers.Etcd]) *Etcd { return etcdOf(c.URL, &c.Set, c.Nodes...) })
}

func startEtcd(o servers.EtcdOptions) starter {
	return starts(servers.StartEtcd, o, func(s *servers.Etcd) *Etcd { return etcdOf(s.URL, servers.SetOf(s.Server), s) })
}

func etcdOf(url func() string, all *servers.Set, members ...*servers.Etcd) *Etcd {
	e := &Etcd{baseOf(url, all), members}
	e.restarts, e.forgets = true, true
	return e
}

// etcdKeys returns the prefix of the keys of claims on name. A slash after it excludes longer names.
func etcdKeys(name string) string {
	return "lockport/" + strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
}

// withClaim calls use with the key whose claim holds the lock on name.
func (e *Etcd) withClaim(ctx context.Context, name string, use func(c *clientv3.Client, claim *mvccpb.KeyValue) error) error {
	return e.Members[0].Use(ctx, func(c *clientv3.Client) error {
		r, err := c.Get(ctx, etcdKeys(name)+"/", clientv3.WithFirstCreate()...)
		switch {
		case err != nil:
			return err
		case len(r.Kvs) == 0:
			return ErrNotHeld
		}
		return use(c, r.Kvs[0])
	})
}

// Remove deletes the key of the claim that holds the lock on name, or the keys of all readers.
func (e *Etcd) Remove(ctx context.Context, name string) error {
	return e.withClaim(ctx, name, func(c *clientv3.Client, claim *mvccpb.KeyValue) error {
		key, opts := string(claim.Key), []clientv3.OpOption(nil)
		if readers := etcdKeys(name) + "/shared-"; strings.HasPrefix(key, readers) {
			key, opts = readers, append(opts, clientv3.WithPrefix())
		}
		r, err := c.Delete(ctx, key, opts...)
		if err == nil && r.Deleted == 0 {
			err = ErrNotHeld
		}
		return err
	})
}

// RevokeLease revokes the lease of the claim that holds the lock on name.
func (e *Etcd) RevokeLease(ctx context.Context, name string) error {
	return e.withClaim(ctx, name, func(c *clientv3.Client, claim *mvccpb.KeyValue) error {
		_, err := c.Revoke(ctx, clientv3.LeaseID(claim.Lease))
		return err
	})
}

// Overwrite implements Locks.
func (e *Etcd) Overwrite(ctx context.Context, name string) error {
	return e.Members[0].Use(ctx, func(c *clientv3.Client) error {
		_, err := c.Delete(ctx, etcdKeys(name)+"/", clientv3.WithPrefix())
		if err == nil {
			_, err = c.Put(ctx, etcdKeys(name)+"/694d71ddacfda227", "")
		}
		return err
	})
}

// Leftovers implements Locks.
func (e *Etcd) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	err = e.Members[0].Use(ctx, func(c *clientv3.Client) error {
		for _, keys := range []string{etcdKeys(prefix), strings.Replace(etcdKeys(prefix), "/", "//permits/", 1)} {
			r, err := c.Get(ctx, keys, clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				return err
			}
			for _, kv := range r.Kvs {
				left = append(left, string(kv.Key))
			}
		}
		return nil
	})
	return left, err
}
