package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// StartReplica starts a replica of master, with master's options, and returns when it is in sync.
func StartReplica(ctx context.Context, master *Redis) (*Redis, error) {
	o := master.options
	o.port = 0
	r, err := StartRedis(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.Follow(ctx, master, master.Addr()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Promote makes a replica a master, even if it has missed writes.
func (r *Redis) Promote(ctx context.Context) error {
	_, err := r.Do(ctx, "REPLICAOF", "NO", "ONE")
	return err
}

// Follow makes the server a replica of master, reached at the address via, and returns when it is in sync. Its previous data are lost.
func (r *Redis) Follow(ctx context.Context, master *Redis, via string) error {
	host, port, err := net.SplitHostPort(via)
	if err != nil {
		return err
	}
	if _, err := r.Do(ctx, "REPLICAOF", host, port); err != nil {
		return err
	}
	want := -1 // the offset that the replica must reach; -1: not known yet
	return Poll(ctx, func(ctx context.Context) error {
		info, err := r.Info(ctx, "replication")
		if err != nil || info["master_link_status"] != "up" {
			return errors.Join(err, fmt.Errorf("redis %s: link to the master is %q", r.Addr(), info["master_link_status"]))
		}
		if want < 0 {
			// Write something: after the initial copy, a master sends a new replica nothing until the replica has reported, but calls it online.
			_, err1 := master.Do(ctx, "PUBLISH", "lockport-servers", "sync")
			now, err2 := master.Info(ctx, "replication")
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			want, _ = strconv.Atoi(now["master_repl_offset"])
		}
		if got, _ := strconv.Atoi(info["slave_repl_offset"]); got < want {
			return fmt.Errorf("redis %s: has replicated %d of %d bytes", r.Addr(), got, want)
		}
		return nil
	})
}
