package crew

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

	"github.com/lockport/lockport/internal/child"
)

// Clerk is a worker process, as its parent sees it. Safe for concurrent use. The caller must End or Kill it.
type Clerk[O, A any] struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer  // to be read when over is closed
	over   chan struct{} // closed when the process has ended and been waited for

	mu      sync.Mutex
	orders  int64
	pending map[int64]chan answer[A]
}

// Hire starts a worker, and returns when it has begun. ctx bounds that alone.
func (k Kind[P, O, A]) Hire(ctx context.Context, p P) (*Clerk[O, A], error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	ready := make(chan answer[A], 1)
	c := &Clerk[O, A]{over: make(chan struct{}), pending: map[int64]chan answer[A]{0: ready}}
	again, err := child.Rerun(&c.stderr, k.Variable+"=1", "GORACE=atexit_sleep_ms=0")
	if err != nil {
		return nil, err
	}
	c.cmd, c.in = again.Cmd, again.In
	go c.listen(again.Out, again.Ended)
	_, _ = c.in.Write(append(text, '\n')) // a worker that does not listen has ended
	if _, err := c.await(ctx, ready); err != nil {
		c.Kill()
		return nil, fmt.Errorf("a client cannot begin: %w", err)
	}
	return c, nil
}

// listen takes the worker's answers until it ends.
func (c *Clerk[O, A]) listen(out io.Reader, ended func()) {
	defer close(c.over)
	answers := json.NewDecoder(out)
	for {
		var a answer[A]
		if err := answers.Decode(&a); err != nil {
			if !errors.Is(err, io.EOF) { // the program prints, or a library: then nobody knows what is an answer
				_ = c.cmd.Process.Kill()
			}
			break
		}
		c.mu.Lock()
		if to := c.pending[a.ID]; to != nil {
			to <- a
		}
		delete(c.pending, a.ID)
		c.mu.Unlock()
	}
	_ = c.cmd.Wait()
	ended()
}

// Send gives an order. await, to be called once, waits for its answer; what the worker could not do is an error.
func (c *Clerk[O, A]) Send(o O) (await func(ctx context.Context) (A, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders++
	to := make(chan answer[A], 1)
	c.pending[c.orders] = to
	line, err := json.Marshal(order[O]{c.orders, o})
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	return func(ctx context.Context) (a A, _ error) {
		if err != nil {
			return a, fmt.Errorf("a client does not listen: %w", err)
		}
		return c.await(ctx, to)
	}
}

// stderrShown is how much is shown of what a worker printed before it ended.
const stderrShown = 2000

func (c *Clerk[O, A]) await(ctx context.Context, from <-chan answer[A]) (A, error) {
	var a answer[A]
	select {
	case a = <-from:
	case <-c.over:
		select {
		case a = <-from: // it was its last
		default:
			text := c.stderr.Bytes()
			return a.Answer, fmt.Errorf("a client's process has ended (%v) %s", c.cmd.ProcessState, bytes.TrimSpace(text[max(0, len(text)-stderrShown):]))
		}
	case <-ctx.Done():
		return a.Answer, ctx.Err()
	}
	if a.Err != "" {
		return a.Answer, errors.New(a.Err)
	}
	return a.Answer, nil
}

// Ask gives an order and waits for its answer.
func (c *Clerk[O, A]) Ask(ctx context.Context, o O) (A, error) { return c.Send(o)(ctx) }

// Kill ends the worker with SIGKILL, and returns when it has ended.
func (c *Clerk[O, A]) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.over
}

// EndTime is how long a worker may take to release what it holds, and to end: some libraries do not hear that nobody wants to wait any more.
const EndTime = 3 * time.Second

// End asks the worker to end in order, kills it if it does not within EndTime, and returns when it has ended.
func (c *Clerk[O, A]) End() {
	_ = c.in.Close()
	select {
	case <-c.over:
	case <-time.After(EndTime):
		c.Kill()
	}
}

// Process is the worker's process, for signals.
func (c *Clerk[O, A]) Process() *os.Process { return c.cmd.Process }

// State is how the worker has ended, after End or Kill.
func (c *Clerk[O, A]) State() *os.ProcessState { return c.cmd.ProcessState }
