package redisscript

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/batch"
)

// Pipe runs scripts on one server or, with a *goredis.ClusterClient, on the node that has the slot of a call's first key. Calls of many
// goroutines share a pipeline. In a Cluster each node has its own pipelines, so a hung node does not delay the others.
//
// Every call returns soon after its context ends, even if the client ignores contexts; requests already sent go on. Only a direct release waits for
// its deadline or the client's timeout. Safe for concurrent use.
type Pipe struct {
	// Client is the client given to NewPipe.
	Client goredis.UniversalClient
	// OwnsClient says that Close also closes the client.
	OwnsClient bool

	cluster  *goredis.ClusterClient // nil: a single server
	single   *goredis.Client        // for direct calls; nil: there are none
	replicas int                    // WAIT for so many; 0: no WAIT
	waitTime time.Duration
	closed   atomic.Bool
	busy     atomic.Int32 // calls under way
	slow     atomic.Int64 // no direct calls until then, in ns since 1970: see direct

	mu    sync.Mutex
	nodes map[*goredis.Client]*node // nil: the server of Client
}

// node is a server of a Pipe, with its queue of calls.
type node struct {
	client *goredis.Client // nil: the Pipe's client
	queue  batch.Queue[Call, Reply]
}

// Reply is the outcome of a call.
type Reply struct {
	Value any   // what the script returned: int64, string, nil, or a []any of these and of errors
	Err   error // classified; nil if the script ran

	// Unacked is ErrUnknown, and says why replicas may lack what the script wrote. nil: enough have it, or need not.
	Unacked error
}

// NewPipe makes a pipe on client. If replicas > 0, grants and renewals wait until that many replicas acknowledge
// them, for waitTime at most. NewPipe does no I/O.
func NewPipe(client goredis.UniversalClient, replicas int, waitTime time.Duration) *Pipe {
	p := &Pipe{Client: client, replicas: replicas, waitTime: waitTime, nodes: make(map[*goredis.Client]*node)}
	switch c := client.(type) {
	case *goredis.ClusterClient:
		p.cluster = c
	case *goredis.Client:
		// With a negative timeout, go-redis sets no deadline at the socket.
		if o := c.Options(); o.ContextTimeoutEnabled && o.ReadTimeout >= 0 && o.WriteTimeout >= 0 {
			p.single = c
		}
	}
	return p
}

// waits reports whether calls of script wait for replicas.
func (p *Pipe) waits(script *Script) bool { return p.replicas > 0 && script.acks }

// Cluster reports whether the keys are spread over nodes.
func (p *Pipe) Cluster() bool { return p.cluster != nil }

// closeTime is how long Close waits for the client.
const closeTime = time.Second

// Close makes later calls fail. Calls under way go on. If the client is the pipe's own, Close closes it. go-redis waits for reads under way, which a
// silent server delays until their timeouts. So Close returns nil after closeTime at the latest, and a goroutine goes on waiting.
func (p *Pipe) Close() error {
	p.closed.Store(true)
	if !p.OwnsClient {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := Guard(ctx, p.Client.Close); ctx.Err() == nil {
		return err
	}
	return nil
}

// Closed reports whether Close was called.
func (p *Pipe) Closed() bool { return p.closed.Load() }

// Run makes a call.
func (p *Pipe) Run(ctx context.Context, c Call) Reply {
	c.deadline, _ = ctx.Deadline()
	defer p.busy.Add(-1)
	if p.busy.Add(1) == 1 {
		if r, ok := p.direct(ctx, c); ok {
			r.Err = withContextErr(ctx, r.Err)
			return r
		}
	}
	n, err := p.nodeOf(ctx, c)
	if err != nil {
		return Reply{Err: err}
	}
	r, sent, err := n.queue.Do(ctx, c)
	if err != nil {
		return Reply{Err: contextErr(err, sent)}
	}
	r.Err = withContextErr(ctx, r.Err)
	return r
}

// MaxTogether is the most locks that one script renews: with names and owners of ordinary length the script's call is smaller than 64 KB, and
// the server does nothing else for a third of a millisecond.
const MaxTogether = 350

// RunAll makes calls in as few pipelines as it can. Replies are in the order of calls.
func (p *Pipe) RunAll(ctx context.Context, calls []Call) []Reply {
	replies := make([]Reply, len(calls))
	parts := make(map[*node][]int)
	for i, c := range calls {
		n, err := p.nodeOf(ctx, c)
		if err != nil {
			replies[i].Err = err
			continue
		}
		parts[n] = append(parts[n], i)
	}
	var wg sync.WaitGroup
	for n, part := range parts {
		wg.Go(func() {
			for at := range slices.Chunk(part, MaxTogether) {
				part := make([]Call, len(at))
				for i, j := range at {
					part[i] = calls[j]
				}
				for i, r := range p.sendWithin(ctx, n, part) {
					r.Err = withContextErr(ctx, r.Err)
					replies[at[i]] = r
				}
			}
		})
	}
	wg.Wait()
	return replies
}

// sendWithin runs calls and returns soon after ctx ends.
func (p *Pipe) sendWithin(ctx context.Context, n *node, calls []Call) []Reply {
	var replies []Reply
	sent := ctx.Err() == nil
	if sent && Guard(ctx, func() error { replies = p.send(ctx, n, calls); return nil }) == nil {
		return replies
	}
	return slices.Repeat([]Reply{{Err: contextErr(ctx.Err(), sent)}}, len(calls))
}

// nodeOf returns the node that has the first key of c.
func (p *Pipe) nodeOf(ctx context.Context, c Call) (*node, error) {
	if p.closed.Load() {
		return nil, Classify(goredis.ErrClosed, false)
	}
	var master *goredis.Client
	if p.cluster != nil {
		err := Guard(ctx, func() (err error) { // it may have to load the slot map
			master, err = p.cluster.MasterForKey(ctx, c.args[3].(string))
			return err
		})
		if err != nil {
			return nil, Classify(err, false)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[master]
	if n == nil {
		if len(p.nodes) >= maxNodes {
			clear(p.nodes) // calls under way keep theirs
		}
		n = &node{client: master}
		n.queue.Send = func(ctx context.Context, calls []Call) []Reply { return p.send(latestDeadline(ctx, calls), n, calls) }
		p.nodes[master] = n
	}
	return n, nil
}

// maxNodes bounds the nodes of a Pipe: more than a Cluster has, but go-redis makes a new client for each node that returns.
const maxNodes = 1024

// IsNil reports that client is nil, or a nil pointer.
func IsNil(client goredis.UniversalClient) bool {
	v := reflect.ValueOf(client)
	return client == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// Guard runs f, which may ignore its context, on its own goroutine. It returns f's error, or ctx's as soon as ctx ends. In that case you must
// not read what f writes.
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
