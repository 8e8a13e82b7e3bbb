package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// batchKeys is how many locks one script renews. A script of 500 takes Redis about half a millisecond, in which others wait.
const batchKeys = 500

// RenewBatch implements driver.BatchRenewer: up to 500 locks in one script, all scripts in a few pipelines. In a cluster a script can
// have one slot only, so there each lock has its own, in one pipeline for every node.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	var claims []*claim
	var at, beside []int // in leases
	for i, l := range leases {
		if c := l.(*claim); c.beside() {
			beside = append(beside, i)
		} else {
			claims, at = append(claims, c), append(at, i)
		}
	}
	b.renewBeside(ctx, leases, results, beside)
	call := func(part []*claim) []any {
		locks, argv := make([]string, len(part)), make([]any, 2*len(part))
		for i, c := range part {
			locks[i], argv[i], argv[len(part)+i] = b.layout.Key(c.Req.Name), c.value(), c.ms()
		}
		return redisscript.Renew.Call(locks, argv...)
	}
	sent, next := time.Now(), 0
	b.forEach(ctx, claims, redisscript.Renew, call, b.o.Replicas > 0, func(c *claim, reply any, r redisscript.Reply) {
		results[at[next]] = c.renewed(sent, reply, r)
		next++
	})
}

// renewed makes the outcome of a renewal of what a script replied for the lock.
func (c *claim) renewed(sent time.Time, reply any, r redisscript.Reply) driver.Renewal {
	switch {
	case r.Err != nil:
		return driver.Renewal{Err: r.Err}
	case reply != int64(1):
		c.b.claims.Leave(c)
		return driver.Renewal{Err: lost(reply)}
	case r.Acked < c.b.o.Replicas:
		return driver.Renewal{Err: fmt.Errorf("%w: only %d of %d replicas acknowledged the renewal within %v",
			driver.ErrUnknown, r.Acked, c.b.o.Replicas, c.b.o.WaitTimeout)}
	}
	return driver.Renewal{Until: sent.Add(c.Req.TTL)}
}

// forEach asks a script about many claims at once, by the arguments that call makes for some of them. The script returns a list with one reply for each. got
// is told each of these, in the order of claims, and the reply that it was in.
func (b *Backend) forEach(ctx context.Context, claims []*claim, script *redisscript.Script, call func([]*claim) []any, acks bool,
	got func(c *claim, reply any, r redisscript.Reply)) {
	size := batchKeys
	if b.pipe.Cluster() {
		size = 1
	}
	parts := slices.Collect(slices.Chunk(claims, size))
	calls := make([][]any, len(parts))
	for i, part := range parts {
		calls[i] = call(part)
	}
	for i, r := range b.pipe.RunAll(ctx, script, calls, acks) {
		list, _ := r.Value.([]any)
		if r.Err == nil && len(list) != len(parts[i]) {
			r.Err = fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
		}
		for j, c := range parts[i] {
			if r.Err != nil {
				got(c, nil, r)
			} else {
				got(c, list[j], r)
			}
		}
	}
}
