package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// question is one script on every node, and the replies. A call's number is the node.
type question struct {
	mu      sync.Mutex
	replies []redisscript.Reply
	left    int
	done    chan struct{} // closed when all have answered
}

// Answered implements redisscript.Answer.
func (q *question) Answered(i int, r redisscript.Reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.replies[i] = r
	q.left--
	if q.left == 0 {
		close(q.done)
	}
}

// askAll begins to ask a script on every node.
func (b *Backend) askAll(script *redisscript.Script, keys, argv []string) *question {
	q := &question{replies: make([]redisscript.Reply, len(b.nodes)), left: len(b.nodes), done: make(chan struct{})}
	for i, n := range b.nodes {
		q.replies[i].Err = n.late
	}
	for i, n := range b.nodes {
		n.line.Call(script, keys, argv, redisscript.Terms{}, q, i)
	}
	return q
}

// answers waits for the answers of all nodes that answer in time.
func (q *question) answers(ctx context.Context) ([]redisscript.Reply, error) {
	timer := time.NewTimer(maxNodeTimeout)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for the nodes: %w", driver.ErrUnknown, ctx.Err())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.replies), nil
}

// majority fails if fewer than a majority have answered.
func (b *Backend) majority(replies []redisscript.Reply) error {
	var why, late []failure
	refused := 0
	for i, r := range replies {
		switch {
		case r.Err == nil:
		case r.Err == b.nodes[i].late:
			late = append(late, b.nodes[i].slow())
		default:
			why = append(why, b.nodes[i].failed(r.Err))
			if isRefused(r.Err) {
				refused++
			}
		}
	}
	if len(why) < b.quorum { // else it is certain without the others, who may be about to answer
		why = append(why, late...)
	}
	switch {
	case len(b.nodes)-len(why) >= b.quorum:
		return nil
	case refused >= b.quorum:
		return fmt.Errorf("%w: %s", driver.ErrRefused, b.missing(why))
	}
	return fmt.Errorf("%w: %s", driver.ErrUnavailable, b.missing(why))
}
