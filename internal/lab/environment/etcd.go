package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport/internal/lab/servers"
)

const (
	etcdTTL = 2 * time.Second
	// EtcdTick makes an election begin 0.6 to 1.2 s after the leader was last heard of. With a shorter one a busy machine elects leaders that nobody asked for;
	// with a longer one an election takes more than what is left of a lease when its leader dies.
	EtcdTick = 60 * time.Millisecond
	// etcdQuota is no more than the first step by which etcd lets its file grow once that is larger than a few megabytes, so that it is soon full.
	etcdQuota = 32 << 20
	// patientTTL is far longer than a server takes to start on a busy machine: it is started while a holder believes.
	patientTTL = 30 * time.Second
)

// etcdEnvironment is a cluster of the installed version. The current version is the one that package etcdserver pins, which is built when it is first started.
var (
	etcdEnvironment  = etcdOf("etcd", "three etcds", etcdTTL, startEtcds(servers.EtcdOptions{}))
	etcdCurrent      = variant(etcdOf("etcd-current", "three etcds of the current version", etcdTTL, startEtcds(servers.EtcdOptions{Current: true})))
	etcdAlone        = etcdOf("etcd-alone", "one etcd", patientTTL, startEtcd(servers.EtcdOptions{Tick: EtcdTick}))
	etcdSuite        = etcdOf("etcd-suite", "one etcd with short elections", etcdTTL, startEtcd(servers.EtcdOptions{}))
	etcdCurrentSuite = etcdOf("etcd-current-suite", "one etcd of the current version", etcdTTL, startEtcd(servers.EtcdOptions{Current: true}))
)

// variant is e, for long runs.
func variant(e Environment) Environment {
	e.Variant = true
	return e
}

func etcdOf(name, title string, ttl time.Duration, start func(ctx context.Context) (Servers, error)) Environment {
	return Environment{
		Name: name, Title: title, Backend: "etcd", TTL: ttl, Margin: marginOf(ttl), Tokens: true,
		RemovalNotice: 250 * time.Millisecond, Needs: []string{"etcd"}, Start: start,
	}
}

func startEtcds(o servers.EtcdOptions) func(ctx context.Context) (Servers, error) {
	o.Tick, o.Cuttable = EtcdTick, true
	o.Flags = []string{fmt.Sprint("--quota-backend-bytes=", etcdQuota)}
	return func(ctx context.Context) (Servers, error) {
		c, err := servers.StartEtcdCluster(ctx, o)
		if err != nil {
			return nil, err
		}
		return &Etcd{membersOf("three etcds", c, c.Nodes...)}, nil
	}
}

func startEtcd(o servers.EtcdOptions) func(ctx context.Context) (Servers, error) {
	return func(ctx context.Context) (Servers, error) {
		e, err := servers.StartEtcd(ctx, o)
		if err != nil {
			return nil, err
		}
		return &Etcd{membersOf("one etcd", nil, e)}, nil
	}
}

// Etcd is one etcd or a cluster.
type Etcd struct{ members[*servers.Etcd] }

// URL implements Servers.
func (e *Etcd) URL(addrs []string) string { return "etcd://" + strings.Join(addrs, ",") }

// Heal returns when each member answers a read for which it asks the leader.
func (e *Etcd) Heal(ctx context.Context) error {
	return inOrder(ctx, e.members.Heal, e.serves, e.MakeSpace)
}

func (e *Etcd) serves(ctx context.Context) error {
	return AtOnce(e.all, func(node *servers.Etcd) error {
		return AtEtcd(node, func(c *clientv3.Client) error {
			return Eventually(ctx, func(ctx context.Context) error { _, err := c.Get(ctx, "serves"); return err })
		})
	})
}

// Restart kills all at the same moment.
func (e *Etcd) Restart(ctx context.Context, keepData bool) error {
	if !keepData {
		return e.lacks("nothing is restarted without its data")
	}
	kill := func() error { return AtOnce(e.all, (*servers.Etcd).Kill) }
	return inOrder(ctx, now(kill), running(e.all...))
}

// LoseDisk keeps the disk: etcd does not let a member back in that has forgotten everything.
func (e *Etcd) LoseDisk(ctx context.Context, i int) (back bool, err error) {
	node := e.all[i]
	disk := filepath.Join(node.Dir(), "data")
	kept := disk + ".kept"
	if err := errors.Join(node.Kill(), os.Rename(disk, kept)); err != nil {
		return false, err
	}
	if node.Restart(ctx) == nil {
		return true, os.RemoveAll(kept)
	}
	return false, errors.Join(node.Kill(), os.RemoveAll(disk), os.Rename(kept, disk))
}

// AtEtcd lends a client of one member and no other.
func AtEtcd(node *servers.Etcd, use func(c *clientv3.Client) error) (err error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{node.Addr()}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return use(c)
}

// etcdKeys is what the keys of claims on name begin with; without the slash at the end, those on names that begin so.
func etcdKeys(name string) string {
	return "lockport/" + strings.NewReplacer("%", "%25", "/", "%2F").Replace(name)
}

// withClaim calls use with the key whose claim holds the lock on name.
func (e *Etcd) withClaim(ctx context.Context, name string, use func(c *clientv3.Client, claim *mvccpb.KeyValue) error) error {
	return AtEtcd(e.all[0], func(c *clientv3.Client) error {
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

// Remove deletes the key of the claim that holds the lock on name.
func (e *Etcd) Remove(ctx context.Context, name string) error {
	return e.withClaim(ctx, name, func(c *clientv3.Client, claim *mvccpb.KeyValue) error {
		r, err := c.Delete(ctx, string(claim.Key))
		if err == nil && r.Deleted != 1 {
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

// Overwrite implements Servers.
func (e *Etcd) Overwrite(ctx context.Context, name string) error {
	return AtEtcd(e.all[0], func(c *clientv3.Client) error {
		if _, err := c.Delete(ctx, etcdKeys(name)+"/", clientv3.WithPrefix()); err != nil {
			return err
		}
		_, err := c.Put(ctx, etcdKeys(name)+"/694d71ddacfda227", "")
		return err
	})
}

// Leftovers implements Servers.
func (e *Etcd) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	err = AtEtcd(e.all[0], func(c *clientv3.Client) error {
		r, err := c.Get(ctx, etcdKeys(prefix), clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, kv := range r.Kvs {
			left = append(left, string(kv.Key))
		}
		return nil
	})
	return left, err
}

// ballast is the key that fills the space, with a version for each write.
const ballast = "ballast"

// Fill writes through a member until the cluster has no space left.
func (e *Etcd) Fill(ctx context.Context, i int) error {
	return AtEtcd(e.all[i], func(c *clientv3.Client) error {
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
	})
}

// MakeSpace does what the error of an etcd that is out of space says: compact, defragment, disarm the alarm.
func (e *Etcd) MakeSpace(ctx context.Context) error {
	return AtEtcd(e.all[0], func(c *clientv3.Client) error {
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
		for _, node := range e.all {
			if _, err := c.Defragment(ctx, node.Addr()); err != nil { // which dials that member
				return fmt.Errorf("defragment %s: %w", node.Addr(), err)
			}
		}
		_, err = c.AlarmDisarm(ctx, &clientv3.AlarmMember{}) // all
		return err
	})
}
