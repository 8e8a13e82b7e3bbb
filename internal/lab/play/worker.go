package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	process "github.com/lockport/lockport/internal/lab/worker"
)

// Worker is a worker process, seen from its parent. Safe for concurrent use.
type Worker struct {
	// Name is unique in the phase.
	Name string
	// Endpoint is the worker's connection to the servers.
	Endpoint *environment.Endpoint

	phase   *Phase
	process *process.Handle[order, history.Event]

	killed, stopped atomic.Bool // by the parent
	orders          atomic.Int64
}

// Worker starts a worker with its own endpoint, and returns when it is ready. The worker executes the parent's commands.
func (s *Phase) Worker() *Worker { return Must(s.start()) }

// start is Worker for any goroutine.
func (s *Phase) start() (*Worker, error) {
	endpoint, err := s.Environment.Endpoint()
	if err != nil {
		return nil, fmt.Errorf("an endpoint for a worker: %w", err)
	}
	url := endpoint.URL
	if s.Cell.URL != nil {
		url = s.Cell.URL(url)
	}
	s.mu.Lock()
	s.spawned++
	w := &Worker{Name: fmt.Sprintf("w%d", s.spawned), Endpoint: endpoint, phase: s}
	s.mu.Unlock()
	s.record(history.Event{Kind: history.Spawned, Worker: w.Name})
	recorded := kind
	recorded.Line = s.recordLine
	w.process, err = recorded.Start(s.Ctx, config{w.Name, url, s.TTL, s.register.Addr().String()})
	if err != nil {
		endpoint.Links.Close()
		return nil, fmt.Errorf("worker %s: %w", w.Name, err)
	}
	s.mu.Lock()
	s.workers = append(s.workers, w)
	s.mu.Unlock()
	context.AfterFunc(w.process.Context(), func() { s.record() }) // wakes those waiting for the worker
	return w, nil
}

// recordLine adds a worker's event to the history. Other lines are output of the program.
func (s *Phase) recordLine(line []byte) {
	var e history.Event
	if json.Unmarshal(line, &e) == nil && e.Kind != "" {
		s.record(e)
	}
}

// Kill ends the worker with SIGKILL, stopped or not, and waits for its end.
func (w *Worker) Kill() {
	w.killed.Store(true)
	w.phase.record(history.Event{Kind: history.Killed, Worker: w.Name})
	w.process.Kill()
}

// Stop pauses the worker with SIGSTOP at any point, as a long pause of its machine would, and returns when it has stopped.
func (w *Worker) Stop() {
	Check(w.process.Freeze())
	w.stopped.Store(true)
	w.phase.record(history.Event{Kind: history.Stopped, Worker: w.Name})
}

// Resume continues a stopped worker.
func (w *Worker) Resume() { Check(w.resume()) }

func (w *Worker) resume() error {
	if !w.stopped.Swap(false) {
		return nil
	}
	w.phase.record(history.Event{Kind: history.Resumed, Worker: w.Name})
	return w.process.Thaw()
}

// endTime limits a worker's orderly end, beside the time in which locks of killed workers expire. A release alone may take 5 s.
const endTime = 20 * time.Second

// end asks the worker to end, and waits for it. It is an error if the worker hangs, has already ended, or had a data race.
func (w *Worker) end() error {
	before, limit := !w.process.Alive(), endTime+2*w.phase.TTL
	hung := w.process.End(limit) != nil
	state, printed := w.process.State(), w.process.Printed()
	what := fmt.Sprintf("ended with %v", state)
	switch {
	case hung:
		what = fmt.Sprintf("hung: it did not end within %v of being asked to", limit)
	case strings.Contains(printed, "WARNING: DATA RACE"):
		what = "has a data race"
	case w.killed.Load(), !before && state.Success():
		return nil
	case before:
		what = fmt.Sprintf("ended unasked (%v)", state)
	}
	return fmt.Errorf("worker %s %s: %s", w.Name, what, printed)
}

// Await waits for an event of the worker at index from or later, while the worker lives.
func (w *Worker) Await(from int, is func(history.Event) bool) history.Event {
	return Must(w.phase.await(w.phase.Ctx, w, from, func(e history.Event) bool { return e.Worker == w.Name && is(e) }))
}

func (w *Worker) ask(o order) (history.Event, error) {
	e, err := w.process.Ask(w.phase.Ctx, o)
	if err != nil {
		err = fmt.Errorf("worker %s: %w", w.Name, err)
	}
	return e, err
}

// AcquireError is an error that a worker's Acquire or TryAcquire returned.
type AcquireError struct {
	Worker, Text string
	Class        history.Class
}

// Error returns the worker's error text.
func (e *AcquireError) Error() string { return e.Worker + ": " + e.Text }

// IsRefusal says that err is an *[AcquireError] of one of the classes.
func IsRefusal(err error, classes ...history.Class) bool {
	refusal, ok := errors.AsType[*AcquireError](err)
	return ok && slices.Contains(classes, refusal.Class)
}

// Acquire has the worker acquire name, with within as the time limit of its call, and waits for the result. A refusal is an *[AcquireError].
func (w *Worker) Acquire(name string, within time.Duration) (*Hold, error) {
	return w.acquire(doAcquire, name, within)
}

// TryAcquire is Acquire with one attempt.
func (w *Worker) TryAcquire(name string, within time.Duration) (*Hold, error) {
	return w.acquire(doTry, name, within)
}

// AcquireAtLast repeats Acquire until it succeeds or limit has passed.
func (w *Worker) AcquireAtLast(name string, within, limit time.Duration) (*Hold, error) {
	for end := time.Now().Add(limit); ; {
		h, err := w.Acquire(name, within)
		if err == nil || time.Now().After(end) || process.Sleep(w.phase.Ctx, 10*time.Millisecond) != nil {
			return h, err
		}
	}
}

func (w *Worker) acquire(do, name string, within time.Duration) (*Hold, error) {
	e, err := w.ask(order{Do: do, Op: w.orders.Add(1), Name: name, Within: within})
	if err != nil {
		return nil, err
	}
	if e.Kind == history.Failed {
		return nil, &AcquireError{Worker: w.Name, Text: e.Err, Class: e.Class}
	}
	return &Hold{Worker: w, Op: e.Op, Token: e.Token, Deadline: e.Deadline}, nil
}

// MaxWait limits the wait for what must happen, such as the grant of a free lock, on a busy machine.
const MaxWait = 20 * time.Second

// Acquire has a worker acquire the phase's lock, which is or soon becomes free. It repeats an attempt that failed.
func (s *Phase) Acquire(w *Worker) *Hold { return Must(w.AcquireAtLast(s.Name, MaxWait, MaxWait)) }

// Warm has workers acquire and release another lock, so that one-time work such as connecting is done.
func (s *Phase) Warm(all ...*Worker) {
	for _, w := range all {
		Must(w.AcquireAtLast(s.Name+"-before", MaxWait, MaxWait)).Release()
	}
}

// Hold is a hold of a worker, seen from its parent.
type Hold struct {
	Worker   *Worker
	Op       int64
	Token    lockport.Token
	Deadline history.Instant // its first deadline
}

func (h *Hold) ask(do string) history.Event { return Must(h.Worker.ask(order{Do: do, Op: h.Op})) }

// Valid asks whether the worker believes it holds the lock now.
func (h *Hold) Valid() bool { return h.ask(doValid).Valid }

// Release has the worker release the lock. The history has the outcome.
func (h *Hold) Release() { h.ask(doRelease) }

// Update has the worker read the register and write the value plus one, without checking the hold. The history has the outcome.
func (h *Hold) Update() { h.ask(doUpdate) }

// Await waits for an event of the hold, of one of these kinds, at index from or later, while the worker lives.
func (h *Hold) Await(from int, kinds ...history.Kind) history.Event {
	return h.Worker.Await(from, func(e history.Event) bool { return e.Op == h.Op && slices.Contains(kinds, e.Kind) })
}

// Event returns the hold's last event of that kind. Its time is 0 if there is none.
func (h *Hold) Event(kind history.Kind) (found history.Event) {
	for _, e := range h.Worker.phase.Events() {
		if e.Worker == h.Worker.Name && e.Op == h.Op && e.Kind == kind {
			found = e
		}
	}
	return found
}

// Renewed waits for the next renewal of the hold. It is an error if the hold ends first.
func (h *Hold) Renewed() {
	e := h.Await(len(h.Worker.phase.Events()), history.Extended, history.Told, history.Releasing)
	if e.Kind != history.Extended {
		Check(fmt.Errorf("%s: the hold ended before a renewal: %s %s", h.Worker.Name, e.Kind, e.Err))
	}
}
