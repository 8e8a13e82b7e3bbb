package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Handle is the parent's view of a worker of a [Kind]. Safe for concurrent use. The caller must Close, End or Kill it.
type Handle[O, A any] struct {
	*Process
	line   func([]byte)
	stderr bytes.Buffer // complete when the process is over

	writing sync.Mutex // guards in and out, which writes to it
	in      io.Closer
	out     *json.Encoder

	mu      sync.Mutex // guards the fields below
	orders  int64
	pending map[int64]chan answer[A]
}

// Start runs this program as a worker with config and the additional environment env, and returns when the worker is ready. ctx bounds the start
// alone. When the worker's process has ended, all its output has been processed.
func (k Kind[C, O, A]) Start(ctx context.Context, config C, env ...string) (*Handle[O, A], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ready := make(chan answer[A], 1)
	h := &Handle[O, A]{line: k.Line, pending: map[int64]chan answer[A]{0: ready}}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), k.Variable+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")), env...)
	cmd.Stdout, cmd.Stderr = &lineWriter{handle: h.handleLine}, &h.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	h.in, h.out = in, json.NewEncoder(in)
	if h.Process, err = Run(cmd); err != nil {
		return nil, err
	}
	_ = h.write(config) // fails only if the worker has ended
	if _, err := h.await(ctx, ready); err != nil {
		h.Kill()
		return nil, fmt.Errorf("cannot start a worker: %w", err)
	}
	return h, nil
}

// write writes v as one line of JSON to the worker's standard input.
func (h *Handle[O, A]) write(v any) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	return h.out.Encode(v)
}

// lineWriter calls handle with each complete line that is written to it. It drops an unfinished last line: the process was killed while it wrote.
type lineWriter struct {
	handle func([]byte)
	line   []byte // its beginning
}

func (l *lineWriter) Write(text []byte) (int, error) {
	for part := range bytes.Lines(text) {
		l.line = append(l.line, part...)
		if line, complete := bytes.CutSuffix(l.line, []byte("\n")); complete {
			l.handle(line)
			l.line = nil
		}
	}
	return len(text), nil
}

// handleLine delivers an answer to the call that waits for it.
func (h *Handle[O, A]) handleLine(line []byte) {
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

// Send sends an order. Call await once to wait for its answer. If the worker fails to carry out the order, that is an error.
func (h *Handle[O, A]) Send(o O) (await func(ctx context.Context) (A, error)) {
	to := make(chan answer[A], 1)
	h.mu.Lock()
	h.orders++
	id := h.orders
	h.pending[id] = to
	h.mu.Unlock()
	err := h.write(order[O]{id, o})
	return func(ctx context.Context) (a A, _ error) {
		if err != nil {
			return a, fmt.Errorf("cannot send the worker an order: %w", err)
		}
		return h.await(ctx, to)
	}
}

// printedShown is how many bytes of a worker's standard error an error quotes.
const printedShown = 2000

func (h *Handle[O, A]) await(ctx context.Context, from <-chan answer[A]) (A, error) {
	var a answer[A]
	select {
	case a = <-from:
	case <-h.over.Done():
		select {
		case a = <-from: // the worker's last answer
		default:
			printed := h.Printed()
			return a.Answer, fmt.Errorf("the worker's process has ended (%v) %s", h.State(), printed[max(0, len(printed)-printedShown):])
		}
	case <-ctx.Done():
		return a.Answer, context.Cause(ctx)
	}
	if a.Err != "" {
		return a.Answer, errors.New(a.Err)
	}
	return a.Answer, nil
}

// Ask sends an order and waits for its answer.
func (h *Handle[O, A]) Ask(ctx context.Context, o O) (A, error) { return h.Send(o)(ctx) }

// Printed returns the worker's standard error, or "" while the worker runs.
func (h *Handle[O, A]) Printed() string {
	if h.Alive() {
		return ""
	}
	return string(bytes.TrimSpace(h.stderr.Bytes()))
}

// End asks the worker to shut down and returns when it has ended. After d, End kills it and returns an error.
func (h *Handle[O, A]) End(d time.Duration) error {
	h.writing.Lock()
	_ = h.in.Close()
	h.writing.Unlock()
	select {
	case <-h.over.Done():
		return nil
	case <-time.After(d):
		h.Kill()
		return fmt.Errorf("the process did not end within %v", d)
	}
}

// closeTime is how long Close waits for a worker: some libraries ignore a canceled context while they wait.
const closeTime = 3 * time.Second

// Close is End with a limit of 3 s.
func (h *Handle[O, A]) Close() { _ = h.End(closeTime) }
