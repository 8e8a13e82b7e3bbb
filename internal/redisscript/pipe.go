package redisscript

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Client is what a Pipe sends through: a *goredis.Client, say.
type Client interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
	Pipeline() goredis.Pipeliner
}

const (
	// maxActive is how many pipelines are under way at once, as long as all goes well. Two keep the server busy while the replies
	// of one are handed out; more make them shorter.
	maxActive = 2
	// maxBatch is how many calls go into one pipeline.
	maxBatch = 512
	// patience is how long calls wait for a pipeline to come back before they get one more, and maxExtra how many of those there
	// may be: a connection that has died silently must not hold up those whose requests could pass.
	patience = 50 * time.Millisecond
	maxExtra = 8
)

// Pipe runs scripts on one server. What many goroutines ask for at once goes as one pipeline. Every call returns soon after
// its context ends, whatever the client's timeouts. Safe for concurrent use.
//
// A goroutine that asks while nobody else does waits for the socket itself: see solo. The others leave that to workers, at most maxActive of
// them that stay and maxExtra that go, because go-redis does not interrupt a read when a context is cancelled.
type Pipe struct {
	client   Client
	solo     *solo // nil: none
	replicas int   // of WAIT; 0: none
	waitTime time.Duration
	sent     sync.Map // the urgent scripts that have been sent with their source

	mu      sync.Mutex
	closed  bool
	waiting []*call // first in, first out
	active  int     // workers with a batch
	idle    int     // workers that wait for a kick
	kick    chan struct{}
	rescuer *time.Timer
	armed   bool
}

// NewPipe makes a pipe through client. With replicas > 0 the calls that ask for it wait until so many replicas have acknowledged
// them, for waitTime at most.
func NewPipe(client Client, replicas int, waitTime time.Duration) *Pipe {
	return &Pipe{client: client, solo: newSolo(client), replicas: replicas, waitTime: waitTime, kick: make(chan struct{}, maxActive)}
}

// call is one script to run.
type call struct {
	cmd      *command
	acks     bool  // wait for replicas
	acked    int   // replicas that acknowledged it
	ackErr   error // why acked is not known
	deadline time.Time
	taken    bool // by a worker; guarded by Pipe.mu
	gone     bool // nobody waits for it any more; guarded by Pipe.mu
	done     chan struct{}
}

var calls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

// Reply is the outcome of a call.
type Reply struct {
	Value any   // what the script returned
	Acked int   // how many replicas acknowledged it, if that was asked for
	Err   error // classified; nil if the script ran
}

// Run runs script with args, begun by script.Args. acks says that the call is to wait for replicas.
func (p *Pipe) Run(ctx context.Context, script *Script, args []any, acks bool) Reply {
	r := p.once(ctx, newCommand(p.first(script, args)), acks)
	if isNoScript(r.Err) {
		r = p.once(ctx, newCommand(script.withSource(args)), acks)
	}
	return r
}

// Ping sends PING as Run sends a script. Its error is never driver.ErrUnknown.
func (p *Pipe) Ping(ctx context.Context) error { return p.once(ctx, newPing(), false).Err }

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

func (p *Pipe) once(ctx context.Context, cmd *command, acks bool) Reply {
	if ctx.Err() != nil {
		return Reply{Err: ended(ctx, false)}
	}
	if p.begin(acks) {
		p.solo.run(ctx, cmd)
		p.end()
		value, err := cmd.Result()
		if err != nil && err != goredis.Nil {
			if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
				<-ctx.Done() // the socket may be quicker than the context's timer
			}
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
		}
		return reply(value, err, cmd)
	}
	c := p.newCall(ctx, cmd, acks)
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
		batch[i] = p.newCall(ctx, newCommand(args[i]), acks)
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

func (p *Pipe) newCall(ctx context.Context, cmd *command, acks bool) *call {
	c := calls.Get().(*call)
	c.cmd, c.acks = cmd, acks && p.replicas > 0
	c.acked, c.ackErr, c.taken, c.gone = 0, nil, false, false
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
	switch {
	case p.active < maxActive:
		p.startWorker()
	case !p.armed:
		p.armRescue()
	}
	return nil
}

// startWorker gives the calls that wait a worker. The mutex is held.
func (p *Pipe) startWorker() {
	p.active++
	if p.idle > 0 {
		p.idle--
		p.kick <- struct{}{}
	} else {
		go p.work()
	}
}

// armRescue gives the calls that wait a further worker unless one comes back in time. The mutex is held.
func (p *Pipe) armRescue() {
	p.armed = true
	if p.rescuer == nil {
		p.rescuer = time.AfterFunc(patience, p.rescue)
	} else {
		p.rescuer.Reset(patience)
	}
}

func (p *Pipe) rescue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.closed || len(p.waiting) == 0 {
		return
	}
	if p.active < maxActive+maxExtra {
		p.startWorker()
	} else {
		p.armRescue()
	}
}

// await waits for c, or for the end of ctx.
func (p *Pipe) await(ctx context.Context, c *call) Reply {
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
			return Reply{Err: ended(ctx, taken && !c.cmd.harmless)}
		}
	}
	value, err := c.cmd.Result()
	r := reply(value, err, c.cmd)
	r.Acked = c.acked
	if r.Err == nil && c.ackErr != nil {
		r.Err = fmt.Errorf("%w: waiting for replicas: %w", driver.ErrUnknown, c.ackErr)
	}
	c.cmd = nil
	calls.Put(c)
	return r
}

// reply makes a Reply of what a command returned.
func reply(value any, err error, cmd *command) Reply {
	if err == goredis.Nil {
		err = nil
	}
	return Reply{Value: value, Err: Classify(err, cmd.written.Load() && !cmd.harmless)}
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

// work runs batches as long as there are calls, and then waits for more.
func (p *Pipe) work() {
	var batch []*call
	for {
		p.mu.Lock()
		batch = p.take(batch[:0])
		for len(batch) == 0 {
			p.active--
			if p.closed || p.active+p.idle >= maxActive {
				p.mu.Unlock()
				return
			}
			p.idle++
			p.mu.Unlock()
			<-p.kick
			p.mu.Lock()
			batch = p.take(batch)
		}
		p.mu.Unlock()
		p.send(batch)
		for i, c := range batch {
			batch[i] = nil
			c.done <- struct{}{}
		}
	}
}

// take moves calls that wait into batch. The mutex is held.
func (p *Pipe) take(batch []*call) []*call {
	n := 0
	for _, c := range p.waiting {
		if len(batch) == maxBatch {
			break
		}
		n++
		if !c.gone {
			c.taken = true
			batch = append(batch, c)
		}
	}
	if n == len(p.waiting) { // as a rule
		clear(p.waiting)
		p.waiting = p.waiting[:0]
	} else {
		p.waiting = slices.Delete(p.waiting, 0, n)
	}
	if len(p.waiting) > 0 && !p.armed {
		p.armRescue()
	}
	return batch
}

// send sends batch and reads the replies.
func (p *Pipe) send(batch []*call) {
	ctx := untilContext{context.Background(), latest(batch)}
	acks := slices.ContainsFunc(batch, func(c *call) bool { return c.acks })
	if len(batch) == 1 && !acks {
		_ = p.client.Process(ctx, batch[0].cmd) // the command has the error too
		return
	}
	pipeline := p.client.Pipeline()
	for _, c := range batch {
		_ = pipeline.Process(ctx, c.cmd)
	}
	var wait *goredis.IntCmd
	if acks { // one for all: it counts the replicas that have everything which this connection has written
		wait = goredis.NewIntCmd(ctx, "wait", p.replicas, p.waitTime.Milliseconds())
		_ = pipeline.Process(ctx, wait)
	}
	_, _ = pipeline.Exec(ctx)
	if acks {
		acked, err := wait.Result()
		for _, c := range batch {
			c.acked, c.ackErr = int(acked), err
		}
	}
}

// latest is the last of the deadlines of batch; zero if one has none.
func latest(batch []*call) time.Time {
	var t time.Time
	for _, c := range batch {
		if c.deadline.IsZero() {
			return time.Time{}
		}
		if c.deadline.After(t) {
			t = c.deadline
		}
	}
	return t
}

// untilContext has a deadline for the socket and no timer: those who wait have their own.
type untilContext struct {
	context.Context
	deadline time.Time
}

func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Close ends the pipe. Calls that have not been sent fail; those under way go on until the client's timeout.
func (p *Pipe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.solo != nil {
		p.solo.close()
	}
	if p.rescuer != nil {
		p.rescuer.Stop()
	}
	for _, c := range p.waiting {
		c.cmd.SetErr(goredis.ErrClosed)
		c.done <- struct{}{}
	}
	p.waiting = nil
	p.active += p.idle
	p.idle = 0
	close(p.kick)
}
