package play

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/rpc"
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
	Register string // address of the register
}

// order is what a worker is told to do, as a line of JSON on its standard input. A worker carries out orders side by side.
type order struct {
	Do     string
	Op     int64 // of the acquisition that it is about, or that it begins; or the order's own number
	Name   string
	Within time.Duration // of an acquisition: the time limit of its context
	Storm  *stormPlan
}

// The orders.
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
	if !IsWorker() {
		return
	}
	w := &worker{out: json.NewEncoder(os.Stdout), holds: make(map[int64]*hold)}
	var leave context.CancelFunc
	w.leaving, leave = context.WithCancel(context.Background())
	err := w.begin()
	w.say(history.Event{Kind: history.Answered}, err)
	if err != nil {
		os.Exit(1)
	}
	w.listen()
	leave()
	w.busy.Wait()
	for _, h := range w.holds {
		h.release() // rather than by Close, so that the history says when
	}
	_ = w.client.Close()
	os.Exit(0)
}

// IsWorker says that this process was started as a worker: [WorkerMain] will not return.
func IsWorker() bool { return os.Getenv(workerVariable) != "" }

// worker is the inside of a worker process.
type worker struct {
	client   *lockport.Client
	register *rpc.Client
	ttl      time.Duration
	busy     sync.WaitGroup  // orders, and goroutines of storms
	leaving  context.Context // ends when the worker is asked to end

	mu    sync.Mutex
	out   *json.Encoder
	holds map[int64]*hold // those that were ordered
}

func (w *worker) begin() error {
	var c config
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &c); err != nil {
		return err
	}
	w.ttl = c.TTL
	var err error
	if w.register, err = rpc.Dial("tcp", c.Register); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.leaving, 10*time.Second)
	defer cancel()
	for { // servers may be electing one of them, by a fault or because the machine is busy
		w.client, err = lockport.Open(ctx, c.URL, lockport.TTL(c.TTL), lockport.Logger(slog.New(slog.DiscardHandler)))
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// say writes an event, with err if there is one. Its time is now unless it has one.
func (w *worker) say(e history.Event, err error) {
	if err != nil {
		e.Err, e.Class = err.Error(), classOf(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = history.Now()
	}
	_ = w.out.Encode(e) // the end of standard input tells that the parent is gone
}

// listen carries out orders until standard input ends.
func (w *worker) listen() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			panic(err) // the parent is the same program
		}
		w.busy.Go(func() { w.do(o) })
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
	answer := history.Event{Kind: history.Answered, Op: o.Op}
	switch {
	case h == nil:
		w.say(answer, errors.New("no such hold"))
		return
	case o.Do == doRelease:
		h.release()
		return
	case o.Do == doValid:
		answer.Valid = h.lock.Valid()
	case o.Do == doUpdate:
		h.update(0, false)
	}
	w.say(answer, nil)
}

// acquire acquires name, or tells why not and returns nil. The caller calls begin.
func (w *worker) acquire(op int64, name string, within time.Duration, try bool) *hold {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	limit, _ := ctx.Deadline()
	asked := history.Now()
	w.say(history.Event{At: asked, Kind: history.Asked, Op: op, Name: name, Limit: history.InstantOf(limit)}, nil)
	f := w.client.Acquire
	if try {
		f = w.client.TryAcquire
	}
	lock, err := f(ctx, name)
	if err != nil {
		w.say(history.Event{Kind: history.Failed, Op: op, Name: name}, err)
		return nil
	}
	h := &hold{worker: w, lock: lock, op: op, name: name, over: make(chan struct{})}
	h.token, _ = lock.Token()
	if h.note(); h.deadline == 0 && !lock.Valid() {
		h.deadline = asked // the worker was stopped until all was over: a hold without a deadline would be believed in until that is told
	}
	return h
}

// classOf tells errors apart.
func classOf(err error) history.Class {
	for _, c := range []struct {
		err   error
		class history.Class
	}{
		{context.DeadlineExceeded, history.ClassTimedOut}, {lockport.ErrHeld, history.ClassHeld}, {lockport.ErrLost, history.ClassLost},
		{lockport.ErrUnavailable, history.ClassUnavailable}, {lockport.ErrRefused, history.ClassRefused}, {fence.ErrStale, history.ClassStale},
	} {
		if errors.Is(err, c.err) {
			return c.class
		}
	}
	return history.ClassOther
}
