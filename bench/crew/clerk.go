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
type Clerk struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer  // to be read when over is closed
	over   chan struct{} // closed when the process has ended and been waited for

	mu      sync.Mutex
	orders  int64
	pending map[int64]chan Answer
}

// Hire starts a worker, and returns when it has opened the library.
func Hire(ctx context.Context, p Posting) (*Clerk, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	c := &Clerk{cmd: exec.Command(self), over: make(chan struct{}), pending: make(map[int64]chan Answer)}
	c.cmd.Env = append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	ready := make(chan Answer, 1)
	c.pending[0] = ready
	ended, err := child.Start(c.cmd)
	if err != nil {
		return nil, err
	}
	go c.listen(out, ended)
	_, _ = c.in.Write(append(text, '\n')) // a worker that does not listen has ended
	if _, err := c.await(ctx, ready); err != nil {
		c.Kill()
		return nil, fmt.Errorf("a worker cannot begin: %w", err)
	}
	return c, nil
}

// listen takes the worker's answers until it ends.
func (c *Clerk) listen(out io.Reader, ended func()) {
	defer close(c.over)
	answers := json.NewDecoder(out)
	for {
		var a Answer
		if err := answers.Decode(&a); err != nil {
			if !errors.Is(err, io.EOF) { // a library prints: then nobody knows what is an answer
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

// Send gives an order. await waits for its answer; what the worker could not do is an error.
func (c *Clerk) Send(o Order) (await func(ctx context.Context) (Answer, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders++
	o.ID = c.orders
	to := make(chan Answer, 1)
	c.pending[o.ID] = to
	line, err := json.Marshal(o)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	return func(ctx context.Context) (Answer, error) {
		if err != nil {
			return Answer{}, fmt.Errorf("a worker does not listen: %w", err)
		}
		return c.await(ctx, to)
	}
}

func (c *Clerk) await(ctx context.Context, from <-chan Answer) (a Answer, err error) {
	select {
	case a = <-from:
	case <-c.over:
		select {
		case a = <-from: // it was its last
		default:
			text := c.stderr.Bytes()
			return a, fmt.Errorf("a worker has ended (%v) %s", c.cmd.ProcessState, bytes.TrimSpace(text[max(0, len(text)-2000):]))
		}
	case <-ctx.Done():
		return a, ctx.Err()
	}
	if a.Err != "" {
		return a, errors.New(a.Err)
	}
	return a, nil
}

// Ask gives an order and waits for its answer.
func (c *Clerk) Ask(ctx context.Context, o Order) (Answer, error) { return c.Send(o)(ctx) }

// Kill ends the worker with SIGKILL, and returns when it has ended.
func (c *Clerk) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.over
}

// endTime is how long a worker may take to release what it holds, and to end: some libraries do not hear that nobody wants to wait any more.
const endTime = 3 * time.Second

// End asks the worker to end in order, kills it if it does not, and returns when it has ended.
func (c *Clerk) End() {
	_ = c.in.Close()
	select {
	case <-c.over:
	case <-time.After(endTime):
		c.Kill()
	}
}

// Crew are workers of one kind.
type Crew []*Clerk

// HireAll starts n workers at once.
func HireAll(ctx context.Context, p Posting, n int) (Crew, error) {
	all := make(Crew, n)
	err := all.Each(func(i int, _ *Clerk) (err error) {
		all[i], err = Hire(ctx, p)
		return err
	})
	if err != nil {
		all.End()
		return nil, err
	}
	return all, nil
}

// Each calls f for all workers at once, and returns when it has returned for all.
func (all Crew) Each(f func(i int, c *Clerk) error) error {
	errs := make([]error, len(all))
	var calls sync.WaitGroup
	for i, c := range all {
		calls.Go(func() { errs[i] = f(i, c) })
	}
	calls.Wait()
	return first(errs)
}

// End ends all workers, those that there are.
func (all Crew) End() {
	_ = all.Each(func(_ int, c *Clerk) error {
		if c != nil {
			c.End()
		}
		return nil
	})
}
