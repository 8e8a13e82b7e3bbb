package play

import (
	"context"
	"encoding/json"
	"errors"
	"net/rpc"
	"os"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/history"
	process "github.com/lockport/lockport/internal/lab/worker"
)

// kind is the kind of worker processes. They report their holds as events, beside their answers.
var kind = process.Kind[config, order, history.Event]{Variable: "LOCKPORT_FAULTS_WORKER"}

// config is what a worker is started with.
type config struct {
	Name     string // the worker's name
	URL      string
	TTL      time.Duration
	Register string // the register's address
}

// order is a command to a worker, which executes orders concurrently. The answer is the order's last event, if any.
type order struct {
	Do     string
	Op     int64         // the acquisition that the order refers to, or begins
	Name   string        // of the lock; of a storm, the beginning of its locks' names
	Within time.Duration // time limit of an acquisition's context
	Seed   uint64        // of a storm's choices
	Lead   bool          // has the goroutines of a storm run leader.Run
}

// The orders.
const (
	doAcquire = "acquire"
	doTry     = "try"
	doRelease = "release"
	doValid   = "valid"  // is the hold valid now?
	doUpdate  = "update" // update the register once, without checking the hold first
	doStorm   = "storm"
)

// WorkerMain is the first line of TestMain. In a worker process it works and exits; in others it returns at once.
func WorkerMain() { kind.Main(begin) }

// IsWorker says that this is a worker process, in which [WorkerMain] does not return.
func IsWorker() bool { return kind.Is() }

// worker is the state inside a worker process.
type worker struct {
	config
	client   *lockport.Client
	register *rpc.Client
	busy     sync.WaitGroup  // goroutines of storms
	leaving  context.Context // ends when the worker is asked to end

	mu    sync.Mutex
	out   *json.Encoder
	holds map[int64]*hold // those of doAcquire and doTry
}

func begin(leaving context.Context, c config) (do func(order) (history.Event, error), end func(), err error) {
	w := &worker{config: c, leaving: leaving, out: json.NewEncoder(os.Stdout), holds: make(map[int64]*hold)}
	if w.register, err = rpc.Dial("tcp", c.Register); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(leaving, time.Minute)
	defer cancel()
	for { // the servers may be electing a leader, by a fault or because the machine is busy
		w.client, err = lockport.Open(ctx, c.URL, lockport.TTL(c.TTL), lockport.Logger(nil))
		if err == nil || process.Sleep(ctx, 50*time.Millisecond) != nil {
			go w.noteStalls()
			return w.Do, w.Close, err
		}
	}
}

// Close releases the holds one by one, so the history records when; closing the client alone would not.
func (w *worker) Close() {
	w.busy.Wait()
	for _, h := range w.holds {
		h.release()
	}
	_ = w.client.Close()
}

// record writes an event, with err if there is one, and returns it. A zero time becomes now.
func (w *worker) record(e history.Event, err error) history.Event {
	if err != nil {
		e.Err, e.Class = err.Error(), classOf(err)
	}
	e.Worker = w.Name
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.At == 0 {
		e.At = history.Now()
	}
	_ = w.out.Encode(e) // if the parent is gone, the end of standard input ends the worker
	return e
}

// noteStalls records when the machine does not run the worker's timers, as one with too much to do. A call that returns late meanwhile proves nothing.
func (w *worker) noteStalls() {
	const period = 10 * time.Millisecond
	for last := history.Now(); ; {
		time.Sleep(period)
		now := history.Now()
		if now.Sub(last) > 10*period {
			w.record(history.Event{At: now, Kind: history.Stalled, Limit: last}, nil)
		}
		last = now
	}
}

// Do carries out an order.
func (w *worker) Do(o order) (e history.Event, err error) {
	switch o.Do {
	case doAcquire, doTry:
		h, e := w.acquire(o.Op, o.Name, history.Mode{}, o.Within, o.Do == doTry)
		if h != nil {
			w.mu.Lock()
			w.holds[o.Op] = h // before the next order can refer to it
			w.mu.Unlock()
			e = h.begin()
		}
		return e, nil
	case doStorm:
		w.storm(o)
		return e, nil
	}
	w.mu.Lock()
	h := w.holds[o.Op]
	if o.Do == doRelease {
		delete(w.holds, o.Op) // released only once
	}
	w.mu.Unlock()
	switch {
	case h == nil:
		return e, errors.New("no such hold")
	case o.Do == doRelease:
		h.release()
	case o.Do == doValid:
		e.Valid = h.lock.Valid()
	case o.Do == doUpdate:
		h.update(0, false)
	}
	return e, nil
}

// acquire acquires name, or records why not and returns no hold. The caller calls begin.
func (w *worker) acquire(op int64, name string, mode history.Mode, within time.Duration, try bool) (*hold, history.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	limit, _ := ctx.Deadline()
	asked := history.Now()
	w.record(history.Event{At: asked, Kind: history.Asked, Op: op, Name: name, Mode: mode, Limit: history.InstantOf(limit)}, nil)
	f := w.client.Acquire
	if try {
		f = w.client.TryAcquire
	}
	var opts []lockport.AcquireOption
	if mode.Shared {
		opts = append(opts, lockport.Shared())
	}
	if mode.Permits > 0 {
		opts = append(opts, lockport.Permits(mode.Permits))
	}
	lock, err := f(ctx, name, opts...)
	if err != nil {
		return nil, w.record(history.Event{Kind: history.Failed, Op: op, Name: name}, err)
	}
	h := &hold{worker: w, lock: lock, op: op, name: name, over: make(chan struct{})}
	h.token, _ = lock.Token()
	if h.readDeadline(); h.deadline == 0 && !lock.Valid() {
		h.deadline = asked // the worker was stopped until the hold had ended; without a deadline, it would count as held until told
	}
	return h, history.Event{}
}

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
