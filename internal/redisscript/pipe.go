package redisscript

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/batch"
)

// Pipe runs scripts through a client: on one server or, with a *goredis.ClusterClient, on the node that has the slot of a call's first key. The calls of
// many goroutines go as one pipeline. In a Cluster each node has pipelines of its own, so that one that hangs does not hold up the others.
//
// Every call returns soon after its context ends, also where the client ignores contexts: what was sent goes on without it. Safe for concurrent use.
type Pipe struct {
	client   goredis.UniversalClient
	cluster  *goredis.ClusterClient // nil: there is one server
	single   *goredis.Client        // by which a caller may go alone; nil: none may
	replicas int                    // of WAIT; 0: none
	waitTime time.Duration
	closed   atomic.Bool
	located  atomic.Bool  // the cluster has told its slots, so that finding a node takes no I/O
	busy     atomic.Int32 // calls under way
	slow     atomic.Int64 // until when nobody is alone, in ns since 1970: see alone

	mu    sync.Mutex
	nodes map[string]*node // by address
}

// node is a server of a Pipe, with the requests for it.
type node struct {
	client *goredis.Client // nil: there is one server
	queue  batch.Queue[call, Reply]
}

// call is one script to run.
type call struct {
	script   *Script
	args     []any
	deadline time.Time // of the caller's context; zero: none
}

// Reply is the outcome of a call.
type Reply struct {
	Value any   // what the script returned: int64, string, nil, or a []any of these and of errors
	Acked int   // how many replicas acknowledged it, if that was asked for
	Err   error // classified; nil if the script ran
}

// NewPipe makes a pipe through client, which it does not close. With replicas > 0 what is to last waits until so many replicas have
// acknowledged it, for waitTime at most. NewPipe does no I/O.
func NewPipe(client goredis.UniversalClient, replicas int, waitTime time.Duration) *Pipe {
	p := &Pipe{client: client, replicas: replicas, waitTime: waitTime, nodes: make(map[string]*node)}
	switch c := client.(type) {
	case *goredis.ClusterClient:
		p.cluster = c
	case *goredis.Client:
		if c.Options().ContextTimeoutEnabled {
			p.single = c
		}
	}
	return p
}

// waits says whether a call of script waits for replicas.
func (p *Pipe) waits(script *Script) bool { return p.replicas > 0 && script.acks }

// Cluster reports whether the keys are spread over nodes.
func (p *Pipe) Cluster() bool { return p.cluster != nil }

// Close has later calls fail. Those under way go on.
func (p *Pipe) Close() { p.closed.Store(true) }

// Run runs script with args, made by script.Call.
func (p *Pipe) Run(ctx context.Context, script *Script, args []any) Reply {
	c := call{script: script, args: args}
	c.deadline, _ = ctx.Deadline()
	defer p.busy.Add(-1)
	if p.busy.Add(1) == 1 {
		if r, ok := p.alone(ctx, c); ok {
			return r
		}
	}
	n, err := p.nodeOf(ctx, args)
	if err != nil {
		return Reply{Err: err}
	}
	r, sent, err := n.queue.Do(ctx, c)
	if err != nil {
		return Reply{Err: ended(err, sent)}
	}
	r.Err = alsoOf(ctx, r.Err)
	return r
}

// maxPipeline is how many calls of RunAll go as one pipeline.
const maxPipeline = 512

// RunAll runs script once for each of args, in as few pipelines as it can. The replies are in the same order.
func (p *Pipe) RunAll(ctx context.Context, script *Script, args [][]any) []Reply {
	replies := make([]Reply, len(args))
	parts := make(map[*node][]int)
	for i := range args {
		n, err := p.nodeOf(ctx, args[i])
		if err != nil {
			replies[i].Err = err
			continue
		}
		parts[n] = append(parts[n], i)
	}
	var wg sync.WaitGroup
	for n, part := range parts {
		wg.Go(func() {
			for at := range slices.Chunk(part, maxPipeline) {
				calls := make([]call, len(at))
				for i, j := range at {
					calls[i] = call{script: script, args: args[j]}
				}
				for i, r := range p.sendFor(ctx, n, calls) {
					r.Err = alsoOf(ctx, r.Err)
					replies[at[i]] = r
				}
			}
		})
	}
	wg.Wait()
	return replies
}

// sendFor sends calls, and returns soon after ctx ends.
func (p *Pipe) sendFor(ctx context.Context, n *node, calls []call) []Reply {
	var replies []Reply
	sent := ctx.Err() == nil
	err := ctx.Err()
	if sent {
		err = Guard(ctx, func() error {
			replies = p.send(ctx, n, calls)
			return nil
		})
	}
	if err != nil {
		return slices.Repeat([]Reply{{Err: ended(ctx.Err(), sent)}}, len(calls))
	}
	return replies
}

// nodeOf finds the node that has the first key of args.
func (p *Pipe) nodeOf(ctx context.Context, args []any) (*node, error) {
	if p.closed.Load() {
		return nil, Classify(goredis.ErrClosed, false)
	}
	var master *goredis.Client
	addr := ""
	if p.cluster != nil {
		find := func() (err error) {
			master, err = p.cluster.MasterForKey(ctx, args[3].(string))
			return err
		}
		var err error
		if p.located.Load() {
			err = find()
		} else if err = Guard(ctx, find); err == nil {
			p.located.Store(true)
		}
		if err != nil {
			return nil, Classify(err, false)
		}
		addr = master.Options().Addr
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[addr]
	if n == nil || n.client != master { // go-redis makes a new client when a node comes back
		n = &node{client: master}
		n.queue.Send = func(ctx context.Context, calls []call) []Reply { return p.send(until(ctx, calls), n, calls) }
		p.nodes[addr] = n
	}
	return n, nil
}

// closeTime is how long CloseClient waits for go-redis.
const closeTime = time.Second

// CloseClient closes client. go-redis waits for reads under way on its connections, which a silent server can hold up until their time-outs: that is left to a goroutine.
func CloseClient(client goredis.UniversalClient) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := Guard(ctx, client.Close); ctx.Err() == nil {
		return err
	}
	return nil
}

// Guard runs f, which may ignore its context, in a goroutine of its own and returns its error, or that of ctx as soon as ctx ends.
// What f writes must not be read then.
func Guard(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for Redis: %w", ctx.Err())
	}
}
