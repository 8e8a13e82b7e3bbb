package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/worker"
)

// workers are the processes that the suite starts of this program.
var workers = worker.Kind[workerConfig, order, answer]{Variable: "LOCKPORT_CONFORMANCE_WORKER"}

// workerConfig is what a worker is started with: what its backend is opened with, and the TTL of its claims.
type workerConfig struct {
	Target string
	TTL    time.Duration
}

// order is what a worker is to do. Orders run at the same time as each other.
type order struct {
	Op   string
	Name string        `json:",omitempty"`
	Hold int           `json:",omitempty"` // what an earlier answer gave
	Wait time.Duration `json:",omitempty"` // bounds the order

	Contend *contender `json:",omitempty"`
	Crowd   *crowd     `json:",omitempty"`
}

// The operations.
const (
	opClaim   = "claim"   // one claim through the driver, never renewed
	opAcquire = "acquire" // Acquire through a client, which renews
	opValid   = "valid"   // Valid and Err of a hold of acquire
	opRelease = "release" // of either
	opContend = "contend" // acquire and release, again and again
	opCrowd   = "crowd"   // take part in a race of crowds
)

// answer is what a worker says to an order.
type answer struct {
	Hold  int    `json:",omitempty"`
	Token uint64 `json:",omitempty"` // as lockport gives it, or, for claim, the driver's
	Valid bool   `json:",omitempty"`
	Err   string `json:",omitempty"`
	Lost  bool   `json:",omitempty"` // Err matches ErrLost
}

// workerMainCalled says that a process that is started from this binary can be a worker.
var workerMainCalled atomic.Bool

// WorkerMain is the first line of TestMain, or of main in a command that calls Run. Where the suite started this process
// as a worker, it works, with a backend that it makes with open, and exits; otherwise it returns at once. Without it the
// cases that need other processes are not run.
func WorkerMain(open func(ctx context.Context, target string) (driver.Backend, error)) {
	workerMainCalled.Store(true)
	workers.Main(func(ctx context.Context, config workerConfig) (worker.Worker[order, answer], error) {
		p := &peer{ctx: ctx, ttl: config.TTL, party: newPartyName(), holds: make(map[int]any)}
		p.open = func() (driver.Backend, error) { return open(context.Background(), config.Target) }
		var err error
		if p.backend, err = p.open(); err != nil {
			return nil, err
		}
		p.client, err = lockport.New(p.backend, lockport.TTL(p.ttl), lockport.Logger(slog.New(slog.DiscardHandler)))
		return p, err
	})
}

// peer is the inside of a worker process.
type peer struct {
	ctx     context.Context // ends when the worker is to end
	open    func() (driver.Backend, error)
	backend driver.Backend
	client  *lockport.Client
	ttl     time.Duration
	party   string

	mu    sync.Mutex
	holds map[int]any // *lockport.Lock or driver.Lease
}

// Close implements [worker.Worker]. Nothing is given back: a worker that should release does so when it is told to.
func (p *peer) Close() {}

// Do implements [worker.Worker].
func (p *peer) Do(o order) (answer, error) {
	var a answer
	ctx := p.ctx
	if o.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Wait)
		defer cancel()
	}
	var err error
	lock, _ := p.hold(o.Hold).(*lockport.Lock)
	lease, _ := p.hold(o.Hold).(driver.Lease)
	switch {
	case o.Op == opValid && lock != nil: // first of all, as a process does that goes on
		a.Valid, err = lock.Valid(), lock.Err()
	case o.Op == opClaim:
		lease, err = p.backend.TryAcquire(ctx, driver.Request{Name: o.Name, Owner: randomHex(16) + ":" + p.party, TTL: p.ttl})
		if err == nil {
			a.Hold, a.Token = p.keep(lease), lease.Grant().Token
		}
	case o.Op == opAcquire:
		lock, err = p.client.Acquire(ctx, o.Name)
		if err == nil {
			a.Hold, a.Token = p.keep(lock), token(lock)
		}
	case o.Op == opRelease && lock != nil:
		err = lock.Release(ctx)
	case o.Op == opRelease && lease != nil:
		err = lease.Release(ctx)
	case o.Op == opContend:
		err = o.Contend.run(ctx, p.client, o.Name)
	case o.Op == opCrowd:
		err = p.crowd(ctx, o.Crowd)
	default:
		err = fmt.Errorf("there is no order %q, or no hold %d", o.Op, o.Hold)
	}
	if err != nil {
		a.Err, a.Lost = err.Error(), errors.Is(err, driver.ErrLost)
	}
	return a, nil
}

func (p *peer) keep(hold any) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := len(p.holds) + 1
	p.holds[id] = hold
	return id
}

func (p *peer) hold(id int) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds[id]
}

// contender is one process's part in a race for a name.
type contender struct {
	Member   int
	Rounds   int
	Register string // the file of the register
}

// run enters each hold into the register.
func (c *contender) run(ctx context.Context, client *lockport.Client, name string) error {
	reg, unmap, err := mapRegister(c.Register)
	if err != nil {
		return err
	}
	defer unmap()
	for range c.Rounds {
		lock, err := client.Acquire(ctx, name)
		if err != nil {
			return err
		}
		hold := int64(c.Member) << memberBits
		if err := reg.enter(0, c.Member, hold, token(lock)); err != nil {
			return err
		}
		time.Sleep(rand.N(200 * time.Microsecond))
		lost := lock.Err()
		if err := errors.Join(reg.leave(0, hold), lost, lock.Release(ctx)); err != nil {
			return fmt.Errorf("a hold on a server that is well: %w", err)
		}
	}
	return nil
}
