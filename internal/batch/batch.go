// Package batch sends the requests of many goroutines to a server together. A request that comes while fewer than Limit batches are under way goes
// at once; the others queue, and go as one batch when another has come back. So a lone caller pays nothing, and a crowd shares round trips.
package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue sends requests of type Q and hands out their answers of type A. Its fields are set before the first use. Safe for concurrent use.
type Queue[Q, A any] struct {
	// Send sends requests, at least one, and returns the answer to each, in their order. It runs on a goroutine of its own. ctx has the values of
	// the first request's context, and ends when nobody waits for any of the answers any more. Send may return later than that.
	Send func(ctx context.Context, requests []Q) []A

	// Alone, if not nil, sends a request that need not wait, in place of Send: on the goroutine of the caller, which saves a switch between two, and
	// with the caller's context. It must return soon after that ends.
	Alone func(ctx context.Context, request Q) A

	// Limit is how many batches are under way at once as long as the server answers. Default: 2, which keeps a server busy while one batch's
	// answers are handed out.
	Limit int

	// Size is how many requests a batch has at most. Default: 64.
	Size int

	// Overdue is after what time a batch no longer counts against Limit: a connection that has died silently must not hold up those whose requests
	// could pass. There are never more than 8 of them. Default: 50 ms.
	Overdue time.Duration

	// Apart gives each request a key: requests of one key never go in one batch. nil: all may go together.
	Apart func(Q) string

	mu      sync.Mutex
	waiting []*item[Q, A]
	active  int        // batches under way that count against Limit
	overdue int        // those that do not any more
	lone    []*sending // of those that count, those whose time does not run, since nobody waits for them
}

// maxOverdue is how many batches may be overdue at once.
const maxOverdue = 8

// item is a request and its answer. mu guards it until done is closed.
type item[Q, A any] struct {
	request Q
	ctx     context.Context
	batch   *sending // nil: it waits
	answer  A
	done    chan struct{}
}

// sending is a batch under way. mu guards it.
type sending struct {
	left   int // requests that somebody waits for
	cancel context.CancelFunc
	timer  *time.Timer // says that it is overdue; nil: its time does not run
	late   bool        // it is overdue
	over   bool        // it has its answers
}

// Do sends request and waits for its answer. err is ctx's, if that ended first; sent then says whether the request may have reached the server: one
// that was not sent yet never is.
func (q *Queue[Q, A]) Do(ctx context.Context, request Q) (answer A, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return answer, false, err
	}
	q.mu.Lock()
	if q.Alone != nil && len(q.waiting) == 0 && q.active < q.limit() {
		q.active++
		s := new(sending)
		q.lone = append(q.lone, s)
		q.mu.Unlock()
		defer q.end(s)
		return q.Alone(ctx, request), true, nil
	}
	for _, s := range q.lone {
		q.run(s)
	}
	q.lone = q.lone[:0]
	it := &item[Q, A]{request: request, ctx: ctx, done: make(chan struct{})}
	q.waiting = append(q.waiting, it)
	q.start()
	q.mu.Unlock()
	select {
	case <-it.done:
		return it.answer, true, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.batch == nil {
		q.waiting = slices.DeleteFunc(q.waiting, func(other *item[Q, A]) bool { return other == it })
		return answer, false, ctx.Err()
	}
	select {
	case <-it.done: // after all
		return it.answer, true, nil
	default:
	}
	if it.batch.left--; it.batch.left == 0 {
		it.batch.cancel()
	}
	return answer, true, ctx.Err()
}

// limit is Limit or its default.
func (q *Queue[Q, A]) limit() int {
	if q.Limit <= 0 {
		return 2
	}
	return q.Limit
}

// run begins the time after which s is overdue. The mutex is held.
func (q *Queue[Q, A]) run(s *sending) {
	overdue := q.Overdue
	if overdue <= 0 {
		overdue = 50 * time.Millisecond
	}
	s.timer = time.AfterFunc(overdue, func() { q.late(s) })
}

// end notes that s is over, and lets those who wait follow.
func (q *Queue[Q, A]) end(s *sending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	q.lone = slices.DeleteFunc(q.lone, func(other *sending) bool { return other == s })
	if s.late {
		q.overdue--
	} else {
		q.active--
	}
	s.over = true
	q.start()
}

// start begins batches for those who wait, as many as may be under way. The mutex is held.
func (q *Queue[Q, A]) start() {
	for len(q.waiting) > 0 && q.active < q.limit() {
		items := q.take()
		ctx, cancel := context.WithCancel(context.WithoutCancel(items[0].ctx))
		s := &sending{left: len(items), cancel: cancel}
		for _, it := range items {
			it.batch = s
		}
		q.active++
		q.run(s)
		go q.send(ctx, s, items)
	}
}

// take takes the requests of the next batch from those that wait. The mutex is held.
func (q *Queue[Q, A]) take() []*item[Q, A] {
	size := q.Size
	if size <= 0 {
		size = 64
	}
	if q.Apart == nil {
		n := min(size, len(q.waiting))
		items := slices.Clone(q.waiting[:n])
		q.waiting = slices.Delete(q.waiting, 0, n)
		return items
	}
	var items []*item[Q, A]
	keys := make(map[string]bool, len(q.waiting))
	q.waiting = slices.DeleteFunc(q.waiting, func(it *item[Q, A]) bool {
		key := q.Apart(it.request)
		if len(items) == size || keys[key] {
			return false
		}
		keys[key] = true
		items = append(items, it)
		return true
	})
	return items
}

// send sends a batch and hands out the answers.
func (q *Queue[Q, A]) send(ctx context.Context, s *sending, items []*item[Q, A]) {
	defer s.cancel()
	defer q.end(s)
	requests := make([]Q, len(items))
	for i, it := range items {
		requests[i] = it.request
	}
	answers := q.Send(ctx, requests)
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, it := range items {
		it.answer = answers[i]
		close(it.done)
	}
}

// late lets another batch begin beside s, which takes long.
func (q *Queue[Q, A]) late(s *sending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.over || s.late || q.overdue == maxOverdue {
		return
	}
	s.late = true
	q.overdue++
	q.active--
	q.start()
}
