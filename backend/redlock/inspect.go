package redlock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// Inspect implements driver.Inspector. A name is held if a majority of the nodes has it for the same owner. It expires
// as one of them says.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st := driver.Status{Name: name}
	replies, err := b.askAll(ctx, redisscript.Inspect, b.layout.Keys(name))
	if err != nil {
		return st, err
	}
	votes := make(map[string]int)
	for i, r := range replies {
		if r.Err != nil {
			continue
		}
		one, _, err := redisscript.Inspected(name, r)
		if err != nil {
			return st, redisscript.Explain(b.nodes[i].addr, err)
		}
		st.Waiters = max(st.Waiters, one.Waiters)
		if !one.Held {
			continue
		}
		if votes[one.Owner]++; votes[one.Owner] == b.quorum {
			st.Held, st.Owner, st.Foreign, st.Expires = true, one.Owner, one.Foreign, one.Expires
		}
	}
	return st, nil
}

// List implements driver.Inspector. It scans all keys of the database on every node, which takes a while on servers with many. A majority of the
// nodes must answer: they know every held name.
func (b *Backend) List(ctx context.Context, prefix string) (list []driver.Status, err error) {
	var mu sync.Mutex
	names := make(map[string]bool)
	err = b.onEach(ctx, func(_ int, n *node) error {
		if err := n.run(ctx, maxNodeTimeout, redisscript.QuorumRenew, nil).Err; err != nil { // of no locks: do not scan a silent node
			return err
		}
		return redisscript.Classify(redisscript.Guard(ctx, func() error {
			return b.layout.Scan(ctx, n.pipe.Client, prefix, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				names[name] = true
			})
		}), false)
	})
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		st, err := b.Inspect(ctx, name)
		if err != nil {
			return nil, err
		}
		if st.Held || st.Waiters > 0 {
			list = append(list, st)
		}
	}
	return list, nil
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	for _, value := range redisscript.ValuesOf(owner) {
		replies, err := b.askAll(ctx, redisscript.Break, b.layout.Keys(name), value)
		broken, others, unknown := 0, 0, ctx.Err() != nil
		for _, r := range replies {
			switch {
			case r.Err != nil:
				unknown = unknown || unsure(r.Err)
			case r.Value == int64(1):
				broken++
			default:
				others++
			}
		}
		switch {
		case err != nil && (unknown || broken > 0): // the hold may have ended
			return fmt.Errorf("%w: %s", driver.ErrUnknown, reason(err))
		case err != nil:
			return err
		case broken > 0 && others < b.quorum:
			return nil
		}
	}
	return fmt.Errorf("%w: that owner no longer holds it", driver.ErrLost)
}
