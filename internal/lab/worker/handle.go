package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Handle is a worker of a [Kind] as its parent sees it. Safe for concurrent use. The caller must Close or Kill it.
type Handle[O, A any] struct {
	*Process

	mu      sync.Mutex
	line    func([]byte)
	orders  int64
	pending map[int64]chan answer[A]
}

// Start starts a worker with config and env, and returns when it has begun. ctx bounds the start alone.
func (k Kind[C, O, A]) Start(ctx context.Context, config C, env ...string) (*Handle[O, A], error) {
	ready := make(chan answer[A], 1)
	h := &Handle[O, A]{line: k.Line, pending: map[int64]chan answer[A]{0: ready}}
	var err error
	if h.Process, err = Rerun(h.hear, append([]string{k.Variable + "=1", "GORACE=atexit_sleep_ms=0"}, env...)...); err != nil {
		return nil, err
	}
	_ = h.Process.Send(config) // a worker that does not listen has ended
	if _, err := h.await(ctx, ready); err != nil {
		h.Kill()
		return nil, fmt.Errorf("a worker cannot begin: %w", err)
	}
	return h, nil
}

// hear passes an answer on.
func (h *Handle[O, A]) hear(line []byte) {
	var a answer[A]
	err := json.Unmarshal(line, &a)
	h.mu.Lock()
	to := h.pending[a.ID]
	delete(h.pending, a.ID)
	h.mu.Unlock()
	switch {
	case err == nil && to != nil:
		to <- a
	case h.line != nil:
		h.line(line)
	}
}

// Send gives an order. await, to be called once, waits for its answer; what the worker could not do is an error.
func (h *Handle[O, A]) Send(o O) (await func(ctx context.Context) (A, error)) {
	to := make(chan answer[A], 1)
	h.mu.Lock()
	h.orders++
	id := h.orders
	h.pending[id] = to
	h.mu.Unlock()
	err := h.Process.Send(order[O]{id, o})
	return func(ctx context.Context) (a A, _ error) {
		if err != nil {
			return a, fmt.Errorf("a worker does not listen: %w", err)
		}
		return h.await(ctx, to)
	}
}

// printedShown is how many bytes of a worker's standard error an error shows.
const printedShown = 2000

// ErrEnded is in the chain of errors of a worker whose process has ended.
var ErrEnded = errors.New("the worker's process has ended")

func (h *Handle[O, A]) await(ctx context.Context, from <-chan answer[A]) (A, error) {
	var a answer[A]
	select {
	case a = <-from:
	case <-h.Over():
		select {
		case a = <-from: // it was its last
		default:
			printed := h.Printed()
			return a.Answer, fmt.Errorf("%w (%v) %s", ErrEnded, h.State(), printed[max(0, len(printed)-printedShown):])
		}
	case <-ctx.Done():
		return a.Answer, context.Cause(ctx)
	}
	if a.Err != "" {
		return a.Answer, errors.New(a.Err)
	}
	return a.Answer, nil
}

// Ask gives an order and waits for its answer.
func (h *Handle[O, A]) Ask(ctx context.Context, o O) (A, error) { return h.Send(o)(ctx) }

// CloseTime is how long Close waits for a worker: some libraries do not hear that nobody wants to wait any more.
const CloseTime = 3 * time.Second

// Close asks the worker to end in order, kills it if it has not after CloseTime, and returns when it has ended.
func (h *Handle[O, A]) Close() { _ = h.End(CloseTime) }
