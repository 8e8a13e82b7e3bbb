package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	process "github.com/lockport/lockport/internal/lab/worker"
)

// Worker is a worker process, as its parent sees it. Safe for concurrent use.
type Worker struct {
	// Name is its own; no other process of the phase has it.
	Name string
	// Endpoint is how it reaches the servers.
	Endpoint *environment.Endpoint

	phase   *Phase
	process *process.Process

	killed atomic.Bool // by us
	orders atomic.Int64

	mu      sync.Mutex
	stopped bool
}

// Worker starts one more worker on an endpoint of its own, and returns when it is ready. It does what it is told.
func (p *Phase) Worker(ctx context.Context) (*Worker, error) {
	endpoint, err := p.Environment.Endpoint()
	if err != nil {
		return nil, fmt.Errorf("an endpoint for a worker: %w", err)
	}
	text, err := json.Marshal(config{URL: endpoint.URL, TTL: p.Environment.TTL, Register: p.register.url})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.spawned++
	w := &Worker{Name: fmt.Sprintf("w%d", p.spawned), Endpoint: endpoint, phase: p}
	from := len(p.events)
	p.mu.Unlock()
	hear := func(line []byte) {
		var e history.Event
		if json.Unmarshal(line, &e) == nil { // or else something in the program printed
			e.Worker = w.Name
			p.say(e)
		}
	}
	if w.process, err = process.Rerun(hear, workerVariable+"="+string(text), "GORACE=atexit_sleep_ms=0"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.workers = append(p.workers, w)
	p.mu.Unlock()
	p.say(history.Event{Kind: history.Spawned, Worker: w.Name})
	go func() {
		<-w.process.Over()
		p.say() // who waits for the worker looks again
	}()
	ready, err := w.Await(ctx, from, func(e history.Event) bool { return e.Kind == history.Answered })
	if err == nil && ready.Err != "" {
		err = errors.New(ready.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("worker %s does not begin: %w: %s", w.Name, err, w.process.Printed())
	}
	return w, nil
}

// Kill ends the worker with SIGKILL, stopped or not, and returns when it has ended.
func (w *Worker) Kill() error {
	w.killed.Store(true)
	w.phase.say(history.Event{Kind: history.Killed, Worker: w.Name})
	w.process.Kill()
	return nil
}

// Stop stops the worker in the middle of whatever it does, as a long pause of its machine would, and returns when it has stopped.
func (w *Worker) Stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.process.Freeze(); err != nil {
		return err
	}
	w.stopped = true
	w.phase.say(history.Event{Kind: history.Stopped, Worker: w.Name})
	return nil
}

// Resume lets a stopped worker go on.
func (w *Worker) Resume() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		return nil
	}
	w.stopped = false
	w.phase.say(history.Event{Kind: history.Resumed, Worker: w.Name})
	return w.process.Thaw()
}

// endTime is how long a worker may take to end what it does, beside the time that locks of killed workers need to expire. A release has 5 s by itself.
const endTime = 20 * time.Second

// end asks the worker to end in order, and returns when it has. It is an error that it did not, that it ended by itself before, or that it had a data race.
func (w *Worker) end() error {
	before := !w.process.Alive()
	limit := endTime + 2*w.phase.Environment.TTL
	hung := w.process.End(limit) != nil
	what := fmt.Sprintf("ended with %v", w.process.State())
	printed := w.process.Printed()
	switch {
	case hung:
		what = fmt.Sprintf("hung: it did not end within %v of being asked to", limit)
	case strings.Contains(printed, "WARNING: DATA RACE"):
		what = "has a data race"
	case w.killed.Load(), !before && w.process.State().Success():
		return nil
	case before:
		what = fmt.Sprintf("ended by itself (%v)", w.process.State())
	}
	return fmt.Errorf("worker %s %s: %s", w.Name, what, printed)
}

// Await waits for an event of the worker's, among those from index from on, as long as it lives.
func (w *Worker) Await(ctx context.Context, from int, is func(history.Event) bool) (history.Event, error) {
	return w.phase.await(ctx, w, from, func(e history.Event) bool { return e.Worker == w.Name && is(e) })
}

// ask sends an order and waits for the first event of its Op that is of one of the kinds.
func (w *Worker) ask(ctx context.Context, o order, kinds ...history.Kind) (history.Event, error) {
	from := w.phase.Length()
	if err := w.process.Send(o); err != nil {
		return history.Event{}, fmt.Errorf("worker %s does not listen: %w", w.Name, err)
	}
	return w.Await(ctx, from, func(e history.Event) bool { return e.Op == o.Op && slices.Contains(kinds, e.Kind) })
}

// AcquireError is what a worker's own call of Acquire, or TryAcquire, has returned: its text, and what sort of error it is.
type AcquireError struct {
	Worker, Text string
	Class        history.Class
}

// Error gives the worker's words.
func (e *AcquireError) Error() string { return e.Worker + ": " + e.Text }

// Acquire has the worker acquire name, and waits for that. ctx bounds the waiting, within the worker's own call. A refusal is an
// *[AcquireError].
func (w *Worker) Acquire(ctx context.Context, name string, within time.Duration) (*Hold, error) {
	return w.acquire(ctx, doAcquire, name, within)
}

// TryAcquire is Acquire with one attempt.
func (w *Worker) TryAcquire(ctx context.Context, name string, within time.Duration) (*Hold, error) {
	return w.acquire(ctx, doTry, name, within)
}

// AcquireAtLast is Acquire, begun anew for as long as limit while it fails.
func (w *Worker) AcquireAtLast(ctx context.Context, name string, within, limit time.Duration) (*Hold, error) {
	for end := time.Now().Add(limit); ; {
		h, err := w.Acquire(ctx, name, within)
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return h, err
		}
		_ = w.phase.Sleep(ctx, 10*time.Millisecond)
	}
}

func (w *Worker) acquire(ctx context.Context, do, name string, within time.Duration) (*Hold, error) {
	e, err := w.ask(ctx, order{Do: do, Op: w.orders.Add(1), Name: name, Within: within}, history.Got, history.Failed)
	if err != nil {
		return nil, err
	}
	if e.Kind == history.Failed {
		return nil, &AcquireError{Worker: w.Name, Text: e.Err, Class: e.Class}
	}
	return &Hold{Worker: w, Op: e.Op, Name: name, Token: e.Token, Deadline: e.Deadline}, nil
}

// Hold is a hold that a commanded worker has, as the parent sees it.
type Hold struct {
	Worker   *Worker
	Op       int64
	Name     string
	Token    lockport.Token
	Deadline history.Instant // when it was got
}

// Valid asks whether the worker believes now that it holds the lock.
func (h *Hold) Valid(ctx context.Context) (bool, error) {
	e, err := h.Worker.ask(ctx, order{Do: doValid, Op: h.Op}, history.Answered)
	return e.Valid, err
}

// Release has the worker release the lock. What Release returned is in the history.
func (h *Hold) Release(ctx context.Context) error {
	_, err := h.Worker.ask(ctx, order{Do: doRelease, Op: h.Op}, history.Released)
	return err
}

// Update has the worker read the registers and write what it read plus one, without looking whether it still holds the lock.
// Whether that was refused is in the history.
func (h *Hold) Update(ctx context.Context) error {
	_, err := h.Worker.ask(ctx, order{Do: doUpdate, Op: h.Op}, history.Answered)
	return err
}

// Renewed waits for the next renewal of the hold, which its worker reports in milliseconds. A hold that ends instead is an error.
func (h *Hold) Renewed(ctx context.Context) error {
	e, err := h.Worker.Await(ctx, h.Worker.phase.Length(), func(e history.Event) bool {
		return e.Op == h.Op && (e.Kind == history.Extended || e.Kind == history.Told || e.Kind == history.Releasing)
	})
	if err == nil && e.Kind != history.Extended {
		err = fmt.Errorf("%s has no hold any more that could be renewed: it was %s %s", h.Worker.Name, e.Kind, e.Err)
	}
	return err
}
