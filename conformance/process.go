package conformance

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// process is a worker as the case that started it sees it.
type process struct {
	*worker.Handle[order, answer]
	e      *Env
	member int // its number in a race
}

// awaiting waits for the answer to an order.
type awaiting func(context.Context) (answer, error)

// startTime is how long a worker may take to be ready.
const startTime = 20 * time.Second

// process starts a worker. It is killed when the case has ended.
func (e *Env) process() *process {
	ctx, cancel := context.WithTimeout(e.ctx, startTime)
	defer cancel()
	race := "GORACE=" + os.Getenv("GORACE") + " halt_on_error=1" // a data race ends it, which is seen
	h, err := workers.Start(ctx, workerConfig{Target: e.cfg.Target, TTL: e.ttl}, race)
	e.check(err, "a worker process")
	e.after(h.Kill)
	return &process{Handle: h, e: e}
}

// begin sends an order.
func (p *process) begin(o order) awaiting { return p.Send(o) }

// await waits for an answer.
func (p *process) await(of awaiting, limit time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(p.e.ctx, limit)
	defer cancel()
	return of(ctx)
}

// do sends an order and waits for an answer without an error.
func (p *process) do(o order, limit time.Duration) answer {
	a, err := p.await(p.begin(o), limit)
	p.e.check(err, "%s in another process", o.Op)
	if a.Err != "" {
		p.e.failf("%s in another process: %s", o.Op, a.Err)
	}
	return a
}

// stop stops the worker in the middle of whatever it does, as a long pause of its machine would.
func (p *process) stop() {
	err := p.Freeze()
	if errors.Is(err, errors.ErrUnsupported) {
		p.e.notRun("this system cannot stop a process")
	}
	p.e.check(err, "stopping a worker")
}

// resume lets a stopped worker go on.
func (p *process) resume() { p.e.check(p.Thaw(), "resuming a worker") }
