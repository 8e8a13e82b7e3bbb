package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/worker"
)

// workers are processes of this program that the suite starts.
var workers = worker.Kind[workerConfig, order, answer]{Variable: "LOCKPORT_CONFORMANCE_WORKER"}

// workerConfig is a worker's configuration: the target of its backend and the TTL of its claims.
type workerConfig struct {
	Target string
	TTL    time.Duration
}

// order tells a worker what to do. Orders run concurrently.
type order struct {
	Op    string
	Name  string `json:",omitempty"` // to acquire
	Crowd *crowd `json:",omitempty"`
}

// The operations.
const (
	opAcquire = "acquire" // Acquire through a client, which renews
	opValid   = "valid"   // Valid and Err of the acquired lock
	opRelease = "release" // release the acquired lock
	opCrowd   = "crowd"   // take part in a race of crowds
)

// answer is the result of an order.
type answer struct {
	Token uint64 `json:",omitempty"`
	Valid bool   `json:",omitempty"`
	Err   string `json:",omitempty"`
	Lost  bool   `json:",omitempty"` // Err matches ErrLost
}

// err is Err as an error.
func (a answer) err() error {
	switch {
	case a.Err == "":
		return nil
	case a.Lost:
		return fmt.Errorf("%s (%w)", a.Err, driver.ErrLost)
	}
	return errors.New(a.Err)
}

// workerMainCalled says that this binary can run workers.
var workerMainCalled atomic.Bool

// WorkerMain must be the first call of TestMain, or of main in a command that calls Run. In a process that the suite started as
// a worker, it opens a backend with open, works and exits. Elsewhere it returns at once. Without it, the cases that need other
// processes are not run.
func WorkerMain(open func(ctx context.Context, target string) (driver.Backend, error)) {
	workerMainCalled.Store(true)
	workers.Main(func(ctx context.Context, config workerConfig) (func(order) (answer, error), func(), error) {
		p := &peer{ctx: ctx, open: func() (driver.Backend, error) { return open(context.Background(), config.Target) }}
		b, err := p.open()
		if err != nil {
			return nil, nil, err
		}
		p.client, err = lockport.New(b, lockport.TTL(config.TTL), lockport.Logger(nil))
		return p.Do, func() {}, err // a worker releases when an order says so
	})
}

// peer runs inside a worker process.
type peer struct {
	ctx    context.Context // ends when the worker must end
	open   func() (driver.Backend, error)
	client *lockport.Client
	lock   atomic.Pointer[lockport.Lock] // the acquired one
}

func (p *peer) Do(o order) (a answer, _ error) {
	var err error
	switch o.Op {
	case opValid:
		a.Valid, err = p.lock.Load().Valid(), p.lock.Load().Err()
	case opAcquire:
		ctx, cancel := context.WithTimeout(p.ctx, callTime)
		defer cancel()
		var lock *lockport.Lock
		if lock, err = p.client.Acquire(ctx, o.Name); err == nil {
			p.lock.Store(lock)
			a.Token = token(lock)
		}
	case opRelease:
		err = p.lock.Load().Release(p.ctx)
	case opCrowd:
		err = p.crowd(p.ctx, o.Crowd)
	}
	if err != nil {
		a.Err, a.Lost = err.Error(), errors.Is(err, driver.ErrLost)
	}
	return a, nil
}

// process is a case's handle of a worker.
type process struct {
	*worker.Handle[order, answer]
	e *Env
}

// process starts a worker, and kills it when the case has ended.
func (e *Env) process() *process {
	const startTime = 20 * time.Second
	ctx, cancel := context.WithTimeout(e.ctx, startTime)
	defer cancel()
	race := "GORACE=" + os.Getenv("GORACE") + " halt_on_error=1" // a data race ends the process, and so fails the case
	h, err := workers.Start(ctx, workerConfig{Target: e.cfg.Target, TTL: e.ttl}, race)
	e.check(err, "a worker process")
	e.after(h.Kill)
	return &process{Handle: h, e: e}
}

// await waits for the answer to an order.
func (p *process) await(of func(context.Context) (answer, error), limit time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(p.e.ctx, limit)
	defer cancel()
	return of(ctx)
}

// do sends an order, which must succeed.
func (p *process) do(o order) answer {
	a, err := p.await(p.Send(o), 2*callTime)
	p.e.check(cmp.Or(err, a.err()), "%s in another process", o.Op)
	return a
}

// stop stops the worker at any point, like a long pause of its machine.
func (p *process) stop() {
	err := p.Freeze()
	p.e.applies(!errors.Is(err, errors.ErrUnsupported), "this system cannot stop a process")
	p.e.check(err, "stopping a worker")
}

// resume resumes a stopped worker. It returns the worker's first answer to opValid.
func (p *process) resume() answer {
	valid := p.Send(order{Op: opValid})
	p.e.check(p.Thaw(), "resuming a worker")
	a, err := p.await(valid, callTime)
	p.e.check(err, "the process that was stopped")
	return a
}
