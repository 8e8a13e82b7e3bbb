package costs

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

// clerk is a worker process, as its parent sees it. Safe for concurrent use.
type clerk struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer  // to be read when over is closed
	over   chan struct{} // closed when the process has ended and been waited for

	mu      sync.Mutex
	orders  int64
	pending map[int64]chan answer
}

// hire starts a worker, and returns when it has opened the URL.
func hire(ctx context.Context, p posting) (*clerk, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	c := &clerk{cmd: exec.Command(self), over: make(chan struct{}), pending: make(map[int64]chan answer)}
	c.cmd.Env = append(os.Environ(), workerVariable+"=1", "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	ready := make(chan answer, 1)
	c.pending[0] = ready
	ended, err := child.Start(c.cmd)
	if err != nil {
		return nil, err
	}
	go c.listen(out, ended)
	_, _ = c.in.Write(append(text, '\n')) // a worker that does not listen has ended
	if _, err := c.await(ctx, ready); err != nil {
		c.kill()
		return nil, fmt.Errorf("a client cannot begin: %w", err)
	}
	return c, nil
}

// listen takes the worker's answers until it ends.
func (c *clerk) listen(out io.Reader, ended func()) {
	defer close(c.over)
	answers := json.NewDecoder(out)
	for {
		var a answer
		if err := answers.Decode(&a); err != nil {
			if !errors.Is(err, io.EOF) { // the program prints: then nobody knows what is an answer
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

// send gives an order. Its answer comes on the channel.
func (c *clerk) send(o order) (<-chan answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders++
	o.ID = c.orders
	line, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	to := make(chan answer, 1)
	c.pending[o.ID] = to
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("a client does not listen: %w", err)
	}
	return to, nil
}

// await waits for an answer. What the worker could not do is an error.
func (c *clerk) await(ctx context.Context, from <-chan answer) (answer, error) {
	var a answer
	select {
	case a = <-from:
	case <-c.over:
		select {
		case a = <-from: // it was its last
		default:
			return a, fmt.Errorf("a client's process has ended (%v) %s", c.cmd.ProcessState, bytes.TrimSpace(c.stderr.Bytes()))
		}
	case <-ctx.Done():
		return a, ctx.Err()
	}
	if a.Err != "" {
		return a, errors.New(a.Err)
	}
	return a, nil
}

// ask gives an order and waits for its answer.
func (c *clerk) ask(ctx context.Context, o order) (answer, error) {
	from, err := c.send(o)
	if err != nil {
		return answer{}, err
	}
	return c.await(ctx, from)
}

// kill ends the worker with SIGKILL, and returns when it has ended.
func (c *clerk) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.over
}

// endTime is how long a worker may take to release what it holds, and to end.
const endTime = 3 * time.Second

// end asks the worker to end in order, kills it if it does not, and returns when it has ended.
func (c *clerk) end() {
	_ = c.in.Close()
	select {
	case <-c.over:
	case <-time.After(endTime):
		c.kill()
	}
}

// crew are workers of one kind.
type crew []*clerk

// hireAll starts n workers at once.
func hireAll(ctx context.Context, p posting, n int) (crew, error) {
	all := make(crew, n)
	err := all.each(func(i int, _ *clerk) (err error) {
		all[i], err = hire(ctx, p)
		return err
	})
	if err != nil {
		all.end()
		return nil, err
	}
	return all, nil
}

// each calls f for all workers at once, and returns when it has returned for all.
func (all crew) each(f func(i int, c *clerk) error) error {
	errs := make([]error, len(all))
	var calls sync.WaitGroup
	for i, c := range all {
		calls.Go(func() { errs[i] = f(i, c) })
	}
	calls.Wait()
	return first(errs)
}

// end ends all workers, those that there are.
func (all crew) end() {
	_ = all.each(func(_ int, c *clerk) error {
		if c != nil {
			c.end()
		}
		return nil
	})
}

// kill ends all workers with SIGKILL.
func (all crew) kill() {
	for _, c := range all {
		c.kill()
	}
}

// first is the first error of several, which mostly say the same.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
