package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/lockport/lockport/conformance/faultproxy"
)

// Replica is a Redis that replicates another one.
type Replica struct {
	*Redis
	// Link is the replication link: its faults keep the replica from hearing of writes. Commands do not pass it.
	Link *faultproxy.Proxy
}

// StartReplica starts a replica of master, with master's options, and returns when it is in sync.
func StartReplica(ctx context.Context, master *Redis) (*Replica, error) {
	link, err := faultproxy.New(master.Addr())
	if err != nil {
		return nil, err
	}
	r, err := StartRedis(ctx, master.options)
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	replica := &Replica{r, link}
	if err := r.Follow(ctx, master, link.Addr()); err != nil {
		return nil, errors.Join(err, replica.Close())
	}
	return replica, nil
}

// Close ends the replica and its link, not its master.
func (r *Replica) Close() error { return errors.Join(r.Redis.Close(), r.Link.Close()) }

// Promote makes a replica a master, whatever it has missed.
func (r *Redis) Promote(ctx context.Context) error {
	_, err := r.Do(ctx, "REPLICAOF", "NO", "ONE")
	return err
}

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
	if err := r.waitOffset(ctx, "0"); err != nil {
		return err
	}
	// A master sends a new replica nothing beyond its first copy until it has heard from it, although it calls it online: hence a message.
	if _, err := master.Do(ctx, "PUBLISH", "lockport-servers", "sync"); err != nil {
		return err
	}
	info, err := master.Info(ctx, "replication")
	if err != nil {
		return err
	}
	return r.waitOffset(ctx, info["master_repl_offset"])
}

// waitOffset waits until a replica is connected to its master and has what the master had at that offset.
func (r *Redis) waitOffset(ctx context.Context, offset string) error {
	want, err := strconv.Atoi(offset)
	if err != nil {
		return err
	}
	return pollFor(ctx, func(ctx context.Context) error {
		info, err := r.Info(ctx, "replication")
		if got, _ := strconv.Atoi(info["slave_repl_offset"]); info["master_link_status"] != "up" || got < want {
			err = errors.Join(err, fmt.Errorf("redis %s: link to the master is %q, offset %d of %d", r.Addr(), info["master_link_status"], got, want))
		}
		return err
	})
}
