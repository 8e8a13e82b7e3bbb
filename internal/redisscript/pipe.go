package redisscript

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Client is what a Pipe sends through: a *goredis.Client, say.
type Client interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
	Pipeline() goredis.Pipeliner
}

// Pipe runs scripts on one server. What many goroutines ask for at once goes as one pipeline. Every call returns soon after
// its context ends, whatever the client's timeouts. Safe for concurrent use.
//
// A goroutine that asks while nobody else does waits for the socket itself. The others leave that to workers, at most maxActive of
// them that stay and maxExtra that go, each on a wire of its own or, where there are none, through the client.
// Those are up to [MaxConnections] in all, of which few stay, and the client's pool does not bound them.
type Pipe struct {
	client   Client
	solo     *wire // for who asks alone; nil: there are no wires
	apart    bool  // calls never go as one script: the server has a part of the slots
	replicas int   // of WAIT; 0: none
	waitTime time.Duration
	sent     sync.Map // the urgent scripts that have been sent with their source

	mu      sync.Mutex
	closed  bool
	waiting []*call   // first in, first out
	workers []*worker // with a batch, and idle ones
	active  int       // workers with a batch, and the caller that is alone
	idle    int       // workers that wait for a kick
	kick    chan struct{}
	wires   []*wire // of workers that have gone
	rescuer *time.Timer
	armed   bool
	nudger  *time.Timer
	nudging bool
}

// NewPipe makes a pipe through client. With replicas > 0 the calls that ask for it wait until so many replicas have acknowledged
// them, for waitTime at most.
func NewPipe(client Client, replicas int, waitTime time.Duration) *Pipe {
	return &Pipe{client: client, solo: newWire(client), replicas: replicas, waitTime: waitTime, kick: make(chan struct{}, maxActive)}
}

// call is one script to run.
type call struct {
	script   *Script // nil: it goes as it is
	args     []any
	acks     bool  // wait for replicas
	waits    bool  // it is WAIT, and speaks for all others
	acked    int   // replicas that acknowledged it
	ackErr   error // why acked is not known
	deadline time.Time

	value any
	sent  bool // it may have been
	err   error

	taken  bool          // by a worker; guarded by Pipe.mu
	gone   bool          // nobody waits for it any more; guarded by Pipe.mu
	nudged bool          // guarded by Pipe.mu
	ended  atomic.Bool   // else what done says is a nudge
	done   chan struct{} // for a nudge and the end
}

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 2)} }}

func (c *call) end() {
	c.ended.Store(true)
	c.done <- struct{}{}
}

// Reply is the outcome of a call.
type Reply struct {
	Value any   // what the script returned
	Acked int   // how many replicas acknowledged it, if that was asked for
	Err   error // classified; nil if the script ran
}

// Run runs script with args, begun by script.Args. acks says that the call is to wait for replicas.
func (p *Pipe) Run(ctx context.Context, script *Script, args []any, acks bool) Reply {
	r := p.once(ctx, script, p.first(script, args), acks)
	if isNoScript(r.Err) {
		r = p.once(ctx, nil, script.withSource(args), acks)
	}
	return r
}

// first are the args of a first attempt: an urgent script that this pipe has not run yet goes with its source.
func (p *Pipe) first(script *Script, args []any) []any {
	if !script.urgent {
		return args
	}
	if _, sent := p.sent.LoadOrStore(script, true); sent {
		return args
	}
	return script.withSource(args)
}

// once makes a call of script with args.
func (p *Pipe) once(ctx context.Context, script *Script, args []any, acks bool) Reply {
	if ctx.Err() != nil {
		return Reply{Err: ended(ctx, false)}
	}
	if p.begin(acks) {
		value, sent, err := p.solo.run(ctx, args)
		p.end()
		if err != nil {
			if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) && ctx.Done() != nil {
				<-ctx.Done() // the socket may be quicker than the context's timer
			}
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
		}
		return Reply{Value: value, Err: Classify(err, sent)}
	}
	c := p.newCall(ctx, args, acks)
	c.script = script
	if err := p.submit(ctx, c); err != nil {
		return Reply{Err: err}
	}
	return p.await(ctx, c)
}

// RunAll runs script once for each of args, all at once. The replies are in the same order.
func (p *Pipe) RunAll(ctx context.Context, script *Script, args [][]any, acks bool) []Reply {
	if len(args) > 0 && script.urgent {
		args = slices.Clone(args)
		args[0] = p.first(script, args[0]) // the others are carried out after it
	}
	replies := p.all(ctx, args, acks)
	var unknown []int // calls of the script by a name that the server does not know
	var full [][]any
	for i, r := range replies {
		if isNoScript(r.Err) {
			unknown = append(unknown, i)
			full = append(full, script.withSource(args[i]))
		}
	}
	for i, r := range p.all(ctx, full, acks) {
		replies[unknown[i]] = r
	}
	return replies
}

func (p *Pipe) all(ctx context.Context, args [][]any, acks bool) []Reply {
	replies := make([]Reply, len(args))
	if len(args) == 0 {
		return replies
	}
	batch := make([]*call, len(args))
	for i := range args {
		batch[i] = p.newCall(ctx, args[i], acks)
	}
	err := p.submit(ctx, batch...)
	for i, c := range batch {
		if err != nil {
			replies[i].Err = err
		} else {
			replies[i] = p.await(ctx, c)
		}
	}
	return replies
}

func (p *Pipe) newCall(ctx context.Context, args []any, acks bool) *call {
	c := calls.Get().(*call)
	*c = call{args: args, acks: acks && p.replicas > 0, done: c.done}
	c.deadline, _ = ctx.Deadline()
	return c
}

// submit hands cs to the workers.
func (p *Pipe) submit(ctx context.Context, cs ...*call) error {
	if ctx.Err() != nil {
		return ended(ctx, false)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Classify(goredis.ErrClosed, false)
	}
	p.waiting = append(p.waiting, cs...)
	if !p.nudging {
		p.nudging = true
		if p.nudger == nil {
			p.nudger = time.AfterFunc(unwatched, p.nudge)
		} else {
			p.nudger.Reset(unwatched)
		}
	}
	switch {
	case p.active < maxActive:
		p.startWorker()
	case !p.armed:
		p.armRescue()
	}
	return nil
}

// await waits for c, or for the end of ctx, for which it looks when c takes long.
func (p *Pipe) await(ctx context.Context, c *call) Reply {
	if <-c.done; !c.ended.Load() {
		select {
		case <-c.done:
		case <-ctx.Done():
			p.mu.Lock()
			c.gone = true
			taken := c.taken
			p.mu.Unlock()
			select {
			case <-c.done: // after all
			default:
				return Reply{Err: ended(ctx, taken)}
			}
		}
	}
	r := Reply{Value: c.value, Acked: c.acked, Err: Classify(c.err, c.sent)}
	if r.Err == nil && c.ackErr != nil {
		r.Err = fmt.Errorf("%w: waiting for replicas: %w", driver.ErrUnknown, c.ackErr)
	}
	if !c.nudged { // else done may not be empty
		c.args, c.value, c.err = nil, nil, nil
		calls.Put(c)
	}
	return r
}

// nudge has those who wait for a call look for the end of their contexts too, which most need not.
func (p *Pipe) nudge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nudging = false
	nudgeAll(p.waiting)
	for _, w := range p.workers {
		nudgeAll(w.batch)
	}
}

func nudgeAll(calls []*call) {
	for _, c := range calls {
		if !c.nudged {
			c.nudged = true
			c.done <- struct{}{}
		}
	}
}

// begin reports that the caller is alone and may use the solo connection. It then calls end.
func (p *Pipe) begin(acks bool) bool {
	if p.solo == nil || acks && p.replicas > 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.active > 0 || len(p.waiting) > 0 {
		return false
	}
	p.active++
	return true
}

// end gives the place of the caller to a worker, if one is needed.
func (p *Pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	if len(p.waiting) > 0 && p.active < maxActive && !p.closed {
		p.startWorker()
	}
}

// Close ends the pipe. Calls that have not been sent fail, and so do those under way, unless they go through the client: those go on until its
// timeout.
func (p *Pipe) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	wires := append(p.wires, p.solo)
	p.wires = nil
	for _, w := range p.workers {
		wires = append(wires, w.wire)
	}
	if p.rescuer != nil {
		p.rescuer.Stop()
	} // the nudger goes on: those whose calls are under way look at their contexts then
	for _, c := range p.waiting {
		c.err = goredis.ErrClosed
		c.end()
	}
	p.waiting = nil
	p.active += p.idle
	p.idle = 0
	close(p.kick)
	p.mu.Unlock()
	for _, w := range wires { // TLS may take its time to say goodbye
		if w != nil {
			w.close()
		}
	}
}
