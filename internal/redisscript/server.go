package redisscript

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Server runs scripts on whatever a client leads to: one server, or, with a *goredis.ClusterClient, the node that has the slot
// of the key. Each node has a pipe of its own, so that one that hangs does not hold up the others. Safe for concurrent use.
type Server struct {
	client   goredis.UniversalClient
	replicas int
	waitTime time.Duration

	single  *Pipe                  // nil with a cluster
	cluster *goredis.ClusterClient // nil without

	located atomic.Bool // the cluster has told its slots once, so that locating a node takes no I/O
	mu      sync.Mutex
	pipes   map[*goredis.Client]*Pipe
	looking bool // for pipes to nodes that have left
	closed  bool

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	looks  sync.WaitGroup
}

// NewServer makes a server of client, which it does not close. See NewPipe for the rest.
func NewServer(client goredis.UniversalClient, replicas int, waitTime time.Duration) *Server {
	s := &Server{client: client, replicas: replicas, waitTime: waitTime}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		s.cluster, s.pipes = cluster, make(map[*goredis.Client]*Pipe)
	} else {
		s.single = NewPipe(client, replicas, waitTime)
	}
	return s
}

// Cluster reports whether the keys are spread over nodes.
func (s *Server) Cluster() bool { return s.cluster != nil }

// Run runs script, all of whose keys have the slot of key. See Pipe.Run.
func (s *Server) Run(ctx context.Context, key string, script *Script, args []any, acks bool) Reply {
	if s.single != nil {
		return s.single.Run(ctx, script, args, acks)
	}
	pipe, err := s.locate(ctx, key)
	if err != nil {
		return Reply{Err: err}
	}
	return s.redirected(ctx, script, args, acks, pipe.Run(ctx, script, args, acks))
}

// RunAll runs script for each of args, whose keys have the slots of keys. See Pipe.RunAll.
func (s *Server) RunAll(ctx context.Context, keys []string, script *Script, args [][]any, acks bool) []Reply {
	if s.single != nil {
		return s.single.RunAll(ctx, script, args, acks)
	}
	replies := make([]Reply, len(keys))
	nodes := make(map[*Pipe][]int)
	for i, key := range keys {
		pipe, err := s.locate(ctx, key)
		if err != nil {
			replies[i].Err = err
			continue
		}
		nodes[pipe] = append(nodes[pipe], i)
	}
	var wg sync.WaitGroup
	for pipe, at := range nodes {
		wg.Go(func() {
			part := make([][]any, len(at))
			for i, j := range at {
				part[i] = args[j]
			}
			for i, r := range pipe.RunAll(ctx, script, part, acks) {
				replies[at[i]] = s.redirected(ctx, script, part[i], acks, r)
			}
		})
	}
	wg.Wait()
	return replies
}

// locate returns the pipe of the node that has key.
func (s *Server) locate(ctx context.Context, key string) (*Pipe, error) {
	var node *goredis.Client
	find := func() (err error) {
		node, err = s.cluster.MasterForKey(ctx, key)
		return err
	}
	var err error
	if s.located.Load() {
		err = find()
	} else if err = Guard(ctx, find); err == nil {
		s.located.Store(true)
	}
	if err != nil {
		return nil, Classify(err, false)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pipe := s.pipes[node]
	if pipe == nil {
		if s.closed {
			return nil, Classify(goredis.ErrClosed, false)
		}
		pipe = NewPipe(node, s.replicas, s.waitTime)
		pipe.apart = true
		s.pipes[node] = pipe
		if !s.looking && len(s.pipes) > 1 {
			s.looking = true
			s.looks.Go(func() { s.leaveOthers(pipe) })
		}
	}
	return pipe, nil
}

// leaveOthers closes the pipes to nodes that are no masters any more, as far as the client knows, but for newest, whose node it may not know yet. go-redis makes a new
// client when a node has another address or comes back, and the connections of a pipe are not the client's to close. Who is on his way to a closed pipe is sent on.
func (s *Server) leaveOthers(newest *Pipe) {
	var mu sync.Mutex
	masters := make(map[*goredis.Client]bool)
	err := Guard(s.ctx, func() error {
		return s.cluster.ForEachMaster(s.ctx, func(_ context.Context, node *goredis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters[node] = true
			return nil
		})
	})
	var left []*Pipe
	s.mu.Lock()
	s.looking = false
	if err == nil {
		for node, pipe := range s.pipes {
			if !masters[node] && pipe != newest {
				delete(s.pipes, node)
				left = append(left, pipe)
			}
		}
	}
	s.mu.Unlock()
	for _, p := range left { // TLS may take its time to say goodbye
		p.Close()
	}
}

// redirected follows a redirection, and lets the client learn the slots anew when something went wrong.
func (s *Server) redirected(ctx context.Context, script *Script, args []any, acks bool, r Reply) Reply {
	var reply goredis.Error
	switch {
	case r.Err == nil:
		return r
	case !errors.As(r.Err, &reply):
		if errors.Is(r.Err, driver.ErrUnavailable) || errors.Is(r.Err, driver.ErrUnknown) {
			s.cluster.ReloadState(ctx)
		}
		if !errors.Is(r.Err, goredis.ErrClosed) { // the node has left the cluster
			return r
		}
	case goredis.HasErrorPrefix(reply, "MOVED"), goredis.HasErrorPrefix(reply, "ASK"), goredis.HasErrorPrefix(reply, "READONLY"):
		s.cluster.ReloadState(ctx)
	default:
		return r
	}
	if acks && s.replicas > 0 { // WAIT must go to the very connection: not while the slot is on its way
		return r
	}
	cmd := newCommand(script.withSource(args))
	err := Guard(ctx, func() error { return s.cluster.Process(ctx, cmd) })
	if err != nil && !errors.Is(err, goredis.Nil) {
		return Reply{Err: Classify(err, cmd.written.Load() || ctx.Err() != nil)}
	}
	return Reply{Value: cmd.Val()}
}

// Close ends the pipes.
func (s *Server) Close() {
	if s.single != nil {
		s.single.Close()
		return
	}
	s.mu.Lock()
	s.closed = true
	pipes := slices.Collect(maps.Values(s.pipes))
	s.mu.Unlock()
	s.cancel()
	for _, p := range pipes {
		p.Close()
	}
	s.looks.Wait()
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
