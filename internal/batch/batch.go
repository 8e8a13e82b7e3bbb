// Package batch combines the requests of many goroutines to a server. A request goes at once while fewer than two batches are under way. Otherwise
// it queues, and the queued requests go as one batch when another returns. So a lone caller pays nothing, and a crowd shares round trips.
package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue sends requests of type Q and returns their answers of type A. Set its fields before the first use. Safe for concurrent use.
type Queue[Q, A any] struct {
	// Send sends requests, at least one, and returns the answer to each, in their order. It runs on its own goroutine. ctx has the values of the
	// first request's context, and ends when no caller waits for an answer any more. Send may return later than that.
	Send func(ctx context.Context, requests []Q) []A

	// Alone, if not nil, replaces Send for a request that need not wait. It runs on the caller's goroutine, which saves a switch, with the caller's
	// context. It must return soon after that ends.
	Alone func(ctx context.Context, request Q) A

	// Apart gives each request a key: requests with the same key never share a batch. nil: all may share one.
	Apart func(Q) string

	mu       sync.Mutex
	waiting  []*item[Q, A]
	underWay []*batch
}

const (
	// limit is how many batches are under way at once while the server answers. Two keep it busy while one batch's answers are distributed.
	limit = 2
	// size is the largest number of requests in a batch.
	size = 64
	// overdue is the age at which a batch no longer counts against limit: a dead connection must not block requests that others could carry.
	overdue = 50 * time.Millisecond
	// most is how many batches of any age are under way at once.
	most = 10
)

// item is a request and its answer. mu guards it until done is closed.
type item[Q, A any] struct {
	request Q
	ctx     context.Context
	batch   *batch // nil: not sent yet
	answer  A
	done    chan struct{}
}

// batch is a batch under way. mu guards it.
type batch struct {
	left   int // requests whose callers still wait
	cancel context.CancelFunc
	began  time.Time
	timer  *time.Timer // sends waiting requests when it is overdue
}

// Do sends request and waits for its answer. If ctx ends first, err is its error, and sent reports whether the request may have reached the server:
// if false, it never will.
func (q *Queue[Q, A]) Do(ctx context.Context, request Q) (answer A, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return answer, false, err
	}
	q.mu.Lock()
	if q.Alone != nil && q.hasRoom() {
		s := new(batch)
		q.begin(s)
		q.mu.Unlock()
		defer q.end(s)
		return q.Alone(ctx, request), true, nil
	}
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

// hasRoom reports whether another batch may start. The mutex is held.
func (q *Queue[Q, A]) hasRoom() bool {
	counted := 0
	for _, s := range q.underWay {
		if time.Since(s.began) < overdue {
			counted++
		}
	}
	return counted < limit && len(q.underWay) < most
}

// begin notes that s is under way. The mutex is held.
func (q *Queue[Q, A]) begin(s *batch) {
	s.began = time.Now()
	s.timer = time.AfterFunc(overdue, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.start()
	})
	q.underWay = append(q.underWay, s)
}

// end notes that s is over, and sends waiting requests.
func (q *Queue[Q, A]) end(s *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.timer.Stop()
	q.underWay = slices.DeleteFunc(q.underWay, func(other *batch) bool { return other == s })
	q.start()
}

// start sends batches of the waiting requests, as many as may be under way. The mutex is held.
func (q *Queue[Q, A]) start() {
	for len(q.waiting) > 0 && q.hasRoom() {
		items := q.take()
		ctx, cancel := context.WithCancel(context.WithoutCancel(items[0].ctx))
		s := &batch{left: len(items), cancel: cancel}
		for _, it := range items {
			it.batch = s
		}
		q.begin(s)
		go q.send(ctx, s, items)
	}
}

// take removes the requests of the next batch from the waiting ones. The mutex is held.
func (q *Queue[Q, A]) take() []*item[Q, A] {
	var items []*item[Q, A]
	keys := make(map[string]bool)
	q.waiting = slices.DeleteFunc(q.waiting, func(it *item[Q, A]) bool {
		if len(items) == size {
			return false
		}
		if q.Apart != nil {
			key := q.Apart(it.request)
			if keys[key] {
				return false
			}
			keys[key] = true
		}
		items = append(items, it)
		return true
	})
	return items
}

// send sends a batch and distributes the answers.
func (q *Queue[Q, A]) send(ctx context.Context, s *batch, items []*item[Q, A]) {
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
