package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// Inspect implements driver.Inspector. A name is held if a majority of the nodes has it for the same owner.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return b.status(ctx, name, b.look(name))
}

func (b *Backend) look(name string) *question {
	key := b.layout.Key(name)
	return b.askAll(redisscript.Inspect, []string{key, redisscript.Side(key, queueKey)}, nil)
}

// status makes a status of what the nodes say.
func (b *Backend) status(ctx context.Context, name string, q *question) (driver.Status, error) {
	st := driver.Status{Name: name}
	replies, err := q.answers(ctx)
	if err == nil {
		err = b.majority(replies)
	}
	if err != nil {
		return st, err
	}
	byOwner := make(map[string][]driver.Status)
	for _, r := range replies {
		if r.Err != nil {
			continue
		}
		one, _, err := redisscript.Inspected(r)
		if err != nil {
			return st, err
		}
		st.Waiters = max(st.Waiters, one.Waiters)
		if one.Held {
			byOwner[one.Owner] = append(byOwner[one.Owner], one)
		}
	}
	for owner, all := range byOwner {
		if len(all) < b.quorum {
			continue
		}
		st.Held, st.Owner, st.Foreign = true, owner, all[0].Foreign
		// It ends when so many have expired that no majority is left.
		slices.SortFunc(all, func(a, b driver.Status) int { return expiry(b).Compare(expiry(a)) })
		st.Expires = all[b.quorum-1].Expires
	}
	return st, nil
}

// expiry is when a key expires; one that never does, late.
func expiry(st driver.Status) time.Time {
	if st.Expires.IsZero() {
		return time.Now().Add(maxTTL)
	}
	return st.Expires
}

// listAtOnce is how many names List looks at at once.
const listAtOnce = 100

// List implements driver.Inspector. It walks through all keys of the database on every node: on servers with many others it takes its time.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	start := b.layout.Prefix
	if prefix != "" {
		start = b.layout.Key(prefix)
	}
	pattern := redisscript.GlobEscape(start) + "*"
	names, err := b.scan(ctx, pattern)
	if err != nil {
		return nil, err
	}
	var list []driver.Status
	for len(names) > 0 {
		part := names[:min(len(names), listAtOnce)]
		names = names[len(part):]
		questions := make([]*question, len(part))
		for i, name := range part {
			questions[i] = b.look(name)
		}
		for i, name := range part {
			st, err := b.status(ctx, name, questions[i])
			if err != nil {
				return nil, err
			}
			if st.Held || st.Waiters > 0 {
				list = append(list, st)
			}
		}
	}
	return list, nil
}

// scan finds names on a majority of the nodes: whatever is held is on one of those.
func (b *Backend) scan(ctx context.Context, pattern string) (names []string, err error) {
	type scanned struct {
		node int
		keys []string
		err  error
	}
	each := make(chan scanned, len(b.nodes))
	for i, n := range b.nodes {
		go func() {
			s := scanned{node: i}
			s.err = redisscript.ScanLocks(ctx, n.client, pattern, queueKey, func(key string) { s.keys = append(s.keys, key) })
			each <- s
		}()
	}
	found := make(map[string]bool)
	replies := make([]redisscript.Reply, len(b.nodes))
	for left, good := len(b.nodes), 0; left > 0 && good < b.quorum; left-- {
		select {
		case s := <-each:
			replies[s.node].Err = redisscript.Classify(s.err, false)
			if s.err == nil {
				good++
			}
			for _, key := range s.keys {
				if name, ok := b.layout.Name(key); ok && !found[key] {
					found[key] = true
					names = append(names, name)
				}
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnavailable, ctx.Err())
		}
	}
	return names, b.majority(replies)
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	key := b.layout.Key(name)
	keys := []string{key, redisscript.Side(key, queueKey)}
	values := []string{redisscript.Value(owner), owner}
	if owner == redisscript.NotAString {
		values = []string{""}
	}
	for _, value := range values {
		replies, err := b.askAll(redisscript.Break, keys, []string{value}).answers(ctx)
		if err == nil {
			err = b.majority(replies)
		}
		if err != nil {
			return err
		}
		broken, others := 0, 0
		for _, r := range replies {
			switch {
			case r.Err != nil:
			case r.Value == int64(1):
				broken++
			default:
				others++
			}
		}
		if broken > 0 && others < b.quorum {
			return nil
		}
	}
	return fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
}

// askWhetherContended tells those of the members for whose name somebody waits at node i.
func (b *Backend) askWhetherContended(_ context.Context, i int, members []redisclaims.Member) {
	for len(members) > 0 {
		part := members[:min(len(members), batchKeys)]
		members = members[len(part):]
		keys := make([]string, len(part))
		for n, m := range part {
			keys[n] = m.(*claim).keys[1]
		}
		b.nodes[i].line.Call(redisscript.Waiting, keys, nil, redisscript.Terms{}, waitingAt(part), 0)
	}
}

// waitingAt are claims of which a node is asked whether somebody waits.
type waitingAt []redisclaims.Member

// Answered implements redisscript.Answer.
func (w waitingAt) Answered(_ int, r redisscript.Reply) {
	list, _ := r.Value.([]any)
	for i, n := range list {
		if waiting, ok := n.(int64); ok && waiting > 0 && i < len(w) {
			w[i].Base().Req.Contended()
		}
	}
}
