package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/lockport/lockport/conformance/faultproxy"
)

// Replica is a Redis that replicates another one.
type Replica struct {
	*Redis
	// Link is the replication link: its faults keep the replica from hearing of writes. Commands do not pass it.
	Link   *faultproxy.Proxy
	master *Redis
}

// StartReplica starts a replica of master, with master's options, and returns when it is in sync. ctx bounds the start
// alone. The caller must Close the replica.
func StartReplica(ctx context.Context, master *Redis) (*Replica, error) {
	if err := master.control(); err != nil {
		return nil, err
	}
	link, err := faultproxy.New(master.Addr())
	if err != nil {
		return nil, err
	}
	r, err := StartRedis(ctx, master.options)
	if err == nil {
		replica := &Replica{Redis: r, Link: link, master: master}
		if err = r.Follow(ctx, master, link.Addr()); err == nil {
			return replica, nil
		}
		_ = r.Close()
	}
	return nil, errors.Join(err, link.Close())
}

// WaitSync waits until the replica is connected to its master and has all that was written there before the call.
func (r *Replica) WaitSync(ctx context.Context) error { return waitSync(ctx, r.master, r.Redis) }

// Promote makes a replica a master, whatever it has missed.
func (r *Redis) Promote(ctx context.Context) error {
	_, err := r.Do(ctx, "REPLICAOF", "NO", "ONE")
	return err
}

// Close ends the replica and its link, not its master.
func (r *Replica) Close() error { return errors.Join(r.Redis.Close(), r.Link.Close()) }

// Follow makes the server a replica of master, which it reaches at the address via, and returns when it is in sync. What it knew
// before is gone.
func (r *Redis) Follow(ctx context.Context, master *Redis, via string) error {
	host, port, err := net.SplitHostPort(via)
	if err != nil {
		return err
	}
	if _, err := r.Do(ctx, "REPLICAOF", host, port); err != nil {
		return err
	}
	return waitSync(ctx, master, r)
}

// waitSync waits until replica has all that master has now, and gets at once what is written from now on. A master sends a new
// replica nothing beyond its first copy until it has heard from it, although it calls it online: hence the message.
func waitSync(ctx context.Context, master, replica *Redis) error {
	wait := func(offset string) error {
		return replica.waitInfo(ctx, "replication", func(info map[string]string) error {
			if got := info["slave_repl_offset"]; info["master_link_status"] != "up" || less(got, offset) {
				return fmt.Errorf("link to the master is %q, offset %q of %s", info["master_link_status"], got, offset)
			}
			return nil
		})
	}
	if err := wait("0"); err != nil {
		return err
	}
	if _, err := master.Do(ctx, "PUBLISH", "lockport-servers", "sync"); err != nil {
		return err
	}
	info, err := master.Info(ctx, "replication")
	if err != nil {
		return err
	}
	return wait(info["master_repl_offset"])
}

// less compares two decimal numbers.
func less(a, b string) bool {
	return len(a) < len(b) || len(a) == len(b) && strings.Compare(a, b) < 0
}
