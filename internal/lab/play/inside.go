package play

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/history"
)

// workerVariable tells a process that it is a worker, and what it works on: a [config].
const workerVariable = "LOCKPORT_FAULTS_WORKER"

// config is what a worker is started with.
type config struct {
	URL      string
	TTL      time.Duration
	Register string // address of the fenced register
}

// order is what a worker is told to do, as a line of JSON on its standard input.
type order struct {
	Do     string // see the constants
	Op     int64  // of the acquisition that it is about, or that it begins; or the order's own number
	Name   string
	Within time.Duration // of an acquisition: the time limit of its context
	Storm  *stormPlan
}

// The orders. A worker does what it is told beside what it does already.
const (
	doAcquire = "acquire"
	doTry     = "try"
	doRelease = "release"
	doValid   = "valid"  // is the hold valid now?
	doUpdate  = "update" // of the register, once, without looking whether the hold is still valid
	doStorm   = "storm"
)

// WorkerMain is the first line of TestMain. In a process that was started as a worker it works and exits; in others it returns at
// once. The program must import the backends.
func WorkerMain() {
	text := os.Getenv(workerVariable)
	if text == "" {
		return
	}
	w := &worker{out: json.NewEncoder(os.Stdout), holds: make(map[int64]*hold), leaving: make(chan struct{})}
	if err := w.begin(text); err != nil {
		w.say(history.Event{Kind: history.Answered, Err: err.Error()})
		os.Exit(1)
	}
	w.say(history.Event{Kind: history.Answered})
	w.listen(os.Stdin)
	w.leave()
	os.Exit(0)
}

// IsWorker says that this process was started as a worker: [WorkerMain] will not return.
func IsWorker() bool { return os.Getenv(workerVariable) != "" }

// worker is the inside of a worker process.
type worker struct {
	client   *lockport.Client
	register *RegisterClient
	ttl      time.Duration
	orders   sync.WaitGroup
	storms   sync.WaitGroup

	mu      sync.Mutex
	out     *json.Encoder
	holds   map[int64]*hold
	leaving chan struct{} // closed when the worker was asked to end
}

func (w *worker) begin(text string) error {
	var p config
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var err error
	w.ttl = p.TTL
	if w.register, err = DialRegister(p.Register); err != nil {
		return err
	}
	for { // servers may be electing one of them, by a fault or because the machine is busy
		w.client, err = lockport.Open(ctx, p.URL, lockport.TTL(p.TTL), lockport.Logger(slog.New(slog.DiscardHandler)))
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// say writes an event. Its time is now unless it has one.
func (w *worker) say(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = history.Now()
	}
	_ = w.out.Encode(e) // a parent that is gone is noticed by the end of standard input
}

// listen carries out orders until standard input ends.
func (w *worker) listen(in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			w.say(history.Event{Kind: history.Answered, Err: err.Error()})
			continue
		}
		w.orders.Go(func() { w.do(o) })
	}
}

// leave ends what is under way in order, as a program does that is asked to end.
func (w *worker) leave() {
	close(w.leaving)
	w.orders.Wait()
	w.storms.Wait()
	for _, h := range w.holds {
		h.release() // rather than by Close, so that the history says when
	}
	_ = w.client.Close()
}

func (w *worker) left() bool {
	select {
	case <-w.leaving:
		return true
	default:
		return false
	}
}

func (w *worker) do(o order) {
	switch o.Do {
	case doAcquire, doTry:
		if h := w.acquire(o.Op, o.Name, o.Within, o.Do == doTry); h != nil {
			w.mu.Lock()
			w.holds[o.Op] = h // before the next order about it can come
			w.mu.Unlock()
			h.begin()
		}
		return
	case doStorm:
		w.storm(*o.Storm)
		return
	}
	w.mu.Lock()
	h := w.holds[o.Op]
	if o.Do == doRelease {
		delete(w.holds, o.Op) // it is released once
	}
	w.mu.Unlock()
	if h == nil {
		w.say(history.Event{Kind: history.Answered, Op: o.Op, Err: "no such hold"})
		return
	}
	switch o.Do {
	case doRelease:
		h.release()
	case doValid:
		w.say(history.Event{Kind: history.Answered, Op: o.Op, Valid: h.lock.Valid()})
	case doUpdate:
		h.update(0, false)
		w.say(history.Event{Kind: history.Answered, Op: o.Op})
	}
}

// acquire acquires name, or tells why not and returns nil. The hold is to begin.
func (w *worker) acquire(op int64, name string, within time.Duration, try bool) *hold {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	limit, _ := ctx.Deadline()
	asked := history.Now()
	w.say(history.Event{At: asked, Kind: history.Asked, Op: op, Name: name, Limit: history.InstantOf(limit)})
	f := w.client.Acquire
	if try {
		f = w.client.TryAcquire
	}
	lock, err := f(ctx, name)
	if err != nil {
		w.say(history.Event{Kind: history.Failed, Op: op, Name: name, Err: err.Error(), Class: classOf(err)})
		return nil
	}
	h := &hold{worker: w, lock: lock, op: op, name: name, over: make(chan struct{})}
	h.token, _ = lock.Token()
	if h.deadline = deadlineOf(lock); h.deadline == 0 && !lock.Valid() {
		h.deadline = asked // the worker was stopped until all was over: a hold without a deadline would be believed in until that is told
	}
	return h
}

// deadlineOf is a hold's deadline, 0 if it has none.
func deadlineOf(l *lockport.Lock) history.Instant {
	d, _ := l.Deadline()
	return history.InstantOf(d)
}

// classOf tells errors apart.
func classOf(err error) history.Class {
	classes := []struct {
		err   error
		class history.Class
	}{
		{nil, ""}, {context.DeadlineExceeded, history.ClassTimedOut}, {lockport.ErrHeld, history.ClassHeld}, {lockport.ErrLost, history.ClassLost},
		{lockport.ErrUnavailable, history.ClassUnavailable}, {lockport.ErrRefused, history.ClassRefused}, {fence.ErrStale, history.ClassStale},
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.class
		}
	}
	return history.ClassOther
}
