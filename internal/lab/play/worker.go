package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
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
	process *process.Handle[order, history.Event]

	killed, stopped atomic.Bool // by us
	orders          atomic.Int64
}

// Worker starts one more worker on an endpoint of its own, and returns when it is ready. It does what it is told.
func (s *Phase) Worker() *Worker { return Must(s.start()) }

// Two starts two more workers.
func (s *Phase) Two() (a, b *Worker) { return s.Worker(), s.Worker() }

// start is Worker, for any goroutine.
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
	s.say(history.Event{Kind: history.Spawned, Worker: w.Name})
	w.process, err = process.Kind[config, order, history.Event]{Variable: kind.Variable, Line: s.hear}.Start(s.Ctx, config{w.Name, url, s.TTL, s.register.addr()})
	if err != nil {
		endpoint.Close()
		return nil, fmt.Errorf("worker %s: %w", w.Name, err)
	}
	s.mu.Lock()
	s.workers = append(s.workers, w)
	s.mu.Unlock()
	go func() {
		<-w.process.Over()
		s.say() // whoever waits for the worker looks again
	}()
	return w, nil
}

// hear adds what a worker tells to the history. Other lines were printed by the program.
func (s *Phase) hear(line []byte) {
	var e history.Event
	if json.Unmarshal(line, &e) == nil && e.Kind != "" {
		s.say(e)
	}
}

// Kill ends the worker with SIGKILL, stopped or not, and returns when it has ended.
func (w *Worker) Kill() {
	w.killed.Store(true)
	w.phase.say(history.Event{Kind: history.Killed, Worker: w.Name})
	w.process.Kill()
}

// Stop stops the worker in the middle of whatever it does, as a long pause of its machine would, and returns when it has stopped.
func (w *Worker) Stop() {
	Check(w.process.Freeze())
	w.stopped.Store(true)
	w.phase.say(history.Event{Kind: history.Stopped, Worker: w.Name})
}

// Resume lets a stopped worker go on.
func (w *Worker) Resume() { Check(w.resume()) }

func (w *Worker) resume() error {
	if !w.stopped.Swap(false) {
		return nil
	}
	w.phase.say(history.Event{Kind: history.Resumed, Worker: w.Name})
	return w.process.Thaw()
}

// endTime is how long a worker may take to end what it does, beside the time that locks of killed workers need to expire. A release has 5 s by itself.
const endTime = 20 * time.Second

// end asks the worker to end in order, and returns when it has. It is an error that it did not, that it ended by itself before, or that it had a data race.
func (w *Worker) end() error {
	before := !w.process.Alive()
	limit := endTime + 2*w.phase.TTL
	hung := w.process.End(limit) != nil
	what := fmt.Sprintf("ended with %v", w.process.State())
	printed := w.process.Printed()
	races, foreign := dataRaces(printed)
	state := w.process.State()
	switch {
	case hung:
		what = fmt.Sprintf("hung: it did not end within %v of being asked to", limit)
	case races > foreign:
		what = "has a data race"
	case w.killed.Load(), !before && (state.Success() || foreign > 0 && state.ExitCode() == raceExit):
		return nil
	case before:
		what = fmt.Sprintf("ended by itself (%v)", w.process.State())
	}
	return fmt.Errorf("worker %s %s: %s", w.Name, what, printed)
}

// raceExit is how a program ends in which the race detector has found something.
const raceExit = 66

// racing finds where each of the two accesses of a data race is.
var racing = regexp.MustCompile(`by goroutine \d+:\n\s*(\S+)\(\)`)

// dataRaces counts the data races that a worker has printed, and those of them that are go-zookeeper's own (v1.0.4): after a lost connection sendSetWatches reads
// the number of the last transaction while recvLoop writes it.
func dataRaces(printed string) (all, foreign int) {
	for _, report := range strings.Split(printed, "WARNING: DATA RACE")[1:] {
		all++
		at := racing.FindAllStringSubmatch(report, -1)
		if len(at) == 2 && !slices.ContainsFunc(at, func(m []string) bool {
			return m[1] != "github.com/go-zookeeper/zk.(*Conn).recvLoop" && m[1] != "github.com/go-zookeeper/zk.(*Conn).sendSetWatches"
		}) {
			foreign++
		}
	}
	return all, foreign
}

// Await waits for an event of the worker's, among those from index from on, as long as it lives.
func (w *Worker) Await(from int, is func(history.Event) bool) history.Event {
	return Must(w.phase.await(w.phase.Ctx, w, from, func(e history.Event) bool { return e.Worker == w.Name && is(e) }))
}

// ask gives an order and waits for its answer.
func (w *Worker) ask(o order) (history.Event, error) {
	e, err := w.process.Ask(w.phase.Ctx, o)
	if err != nil {
		err = fmt.Errorf("worker %s: %w", w.Name, err)
	}
	return e, err
}

// AcquireError is what a worker's own call of Acquire, or TryAcquire, has returned: its text, and what sort of error it is.
type AcquireError struct {
	Worker, Text string
	Class        history.Class
}

// Error gives the worker's words.
func (e *AcquireError) Error() string { return e.Worker + ": " + e.Text }

// IsRefusal says that err is an *[AcquireError] of one of the classes.
func IsRefusal(err error, classes ...history.Class) bool {
	refusal := new(AcquireError)
	return errors.As(err, &refusal) && slices.Contains(classes, refusal.Class)
}

// Acquire has the worker acquire name, within the time limit of its own call, and waits for that. A refusal is an *[AcquireError].
func (w *Worker) Acquire(name string, within time.Duration) (*Hold, error) {
	return w.acquire(doAcquire, name, within)
}

// TryAcquire is Acquire with one attempt.
func (w *Worker) TryAcquire(name string, within time.Duration) (*Hold, error) {
	return w.acquire(doTry, name, within)
}

// AcquireAtLast is Acquire, begun anew for as long as limit while it fails.
func (w *Worker) AcquireAtLast(name string, within, limit time.Duration) (*Hold, error) {
	for end := time.Now().Add(limit); ; {
		h, err := w.Acquire(name, within)
		if err == nil || time.Now().After(end) || sleep(w.phase.Ctx, 10*time.Millisecond) != nil {
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
	return &Hold{Worker: w, Op: e.Op, Name: name, Token: e.Token, Deadline: e.Deadline}, nil
}

// lasting bounds the wait for a lock that is free, on a machine that is busy.
const lasting = 20 * time.Second

// Acquire has a worker acquire the phase's lock, which is free or soon will be. An Acquire whose first attempt takes longer than the TTL fails, and is begun anew.
func (s *Phase) Acquire(w *Worker) *Hold { return Must(w.AcquireAtLast(s.name, lasting, lasting)) }

// Warm has workers acquire and release another lock, so that what clients do but once, connecting for instance, is behind them.
func (s *Phase) Warm(all ...*Worker) {
	for _, w := range all {
		Must(w.AcquireAtLast(s.name+"-before", lasting, lasting)).Release()
	}
}

// Hold is a hold that a commanded worker has, as the parent sees it.
type Hold struct {
	Worker   *Worker
	Op       int64
	Name     string
	Token    lockport.Token
	Deadline history.Instant // when it was got
}

func (h *Hold) ask(do string) history.Event { return Must(h.Worker.ask(order{Do: do, Op: h.Op})) }

// Valid asks whether the worker believes now that it holds the lock.
func (h *Hold) Valid() bool { return h.ask(doValid).Valid }

// Release has the worker release the lock. What Release returned is in the history.
func (h *Hold) Release() { h.ask(doRelease) }

// Update has the worker read the register and write what it read plus one, without looking whether it still holds the lock.
// Whether that was refused is in the history.
func (h *Hold) Update() { h.ask(doUpdate) }

// Event is the last event of that kind so far. Its time is 0 if there is none.
func (h *Hold) Event(kind history.Kind) (found history.Event) {
	for _, e := range h.Worker.phase.Events() {
		if e.Worker == h.Worker.Name && e.Op == h.Op && e.Kind == kind {
			found = e
		}
	}
	return found
}

// Renewed waits for a renewal of the hold, among the events from index from on. A hold that ends instead is an error.
func (h *Hold) Renewed(from int) history.Event {
	e := h.Worker.Await(from, func(e history.Event) bool {
		return e.Op == h.Op && (e.Kind == history.Extended || e.Kind == history.Told || e.Kind == history.Releasing)
	})
	if e.Kind != history.Extended {
		Check(fmt.Errorf("%s has no hold any more that could be renewed: it was %s %s", h.Worker.Name, e.Kind, e.Err))
	}
	return e
}
