package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// batchKeys is how many locks one script renews. A script of 500 takes Redis about half a millisecond, in which others wait.
const batchKeys = 500

// Renew implements driver.Lease.
func (c *claim) Renew(ctx context.Context) (time.Time, error) {
	results := make([]driver.Renewal, 1)
	c.b.RenewBatch(ctx, []driver.Lease{c}, results)
	return results[0].Until, results[0].Err
}

// RenewBatch implements driver.BatchRenewer: up to 500 locks in one script, all scripts in a few pipelines. In a cluster a script can
// have one slot only, so there each lock has its own, in one pipeline for every node.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	claims := make([]*claim, 0, len(leases))
	at := make([]int, 0, len(leases)) // where each has its result
	for i, l := range leases {
		c, ok := l.(*claim)
		if !ok || c.b != b {
			results[i].Err = fmt.Errorf("%w: the lease is not of this backend", driver.ErrRefused)
			continue
		}
		claims, at = append(claims, c), append(at, i)
	}
	sent := time.Now()
	ask := func(c *claim) (key any, argv []any) { return (*lockOf)(c), []any{(*valueOf)(c), (*ttlOf)(c)} }
	b.forEach(ctx, claims, redisscript.Renew, ask, b.o.Replicas > 0, func(i int, reply any, acked int, err error) {
		results[at[i]] = claims[i].renewed(sent, reply, acked, err)
	})
}

// renewed makes the outcome of a renewal of a script's reply.
func (c *claim) renewed(sent time.Time, reply any, acked int, err error) driver.Renewal {
	switch {
	case err != nil:
		return driver.Renewal{Err: err}
	case reply != int64(1):
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.ended {
			c.ended, c.endedAs = true, lost(reply)
			c.b.claims.Leave(c)
		}
		return driver.Renewal{Err: lost(reply)}
	case acked < c.b.o.Replicas:
		return driver.Renewal{Err: fmt.Errorf("%w: only %d of %d replicas acknowledged the renewal within %v",
			driver.ErrUnknown, acked, c.b.o.Replicas, c.b.o.WaitTimeout)}
	}
	return driver.Renewal{Until: c.extend(sent.Add(c.Req.TTL))}
}

// forEach asks a script about many claims at once. ask gives the key of each and the arguments that belong to it; the script gets the
// first argument of all, then the second of all, and returns a list with one reply for each key. got is told each reply, and how many
// replicas acknowledged it.
func (b *Backend) forEach(ctx context.Context, claims []*claim, script *redisscript.Script, ask func(*claim) (any, []any),
	acks bool, got func(i int, reply any, acked int, err error)) {
	size := batchKeys
	if b.server.Cluster() {
		size = 1
	}
	var slots []string // a key of each call
	var calls [][]any
	for first := 0; first < len(claims); first += size {
		part := claims[first:min(first+size, len(claims))]
		_, argv := ask(part[0])
		args := append(script.Args(1+len(part)*(1+len(argv))), len(part))
		args = args[:cap(args)][:3+len(part)*(1+len(argv))]
		for i, c := range part {
			k, argv := ask(c)
			args[3+i] = k
			for j, a := range argv {
				args[3+(j+1)*len(part)+i] = a
			}
		}
		slots, calls = append(slots, part[0].slot), append(calls, args)
	}
	for i, r := range b.server.RunAll(ctx, slots, script, calls, acks) {
		n := min(size, len(claims)-i*size)
		list, _ := r.Value.([]any)
		if r.Err == nil && len(list) != n {
			r.Err = fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
		}
		for j := range n {
			if r.Err != nil {
				got(i*size+j, nil, 0, r.Err)
			} else {
				got(i*size+j, list[j], r.Acked, nil)
			}
		}
	}
}
