package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// simulated is a Server in a bubble of synctest, whose links are slow, lose what they carry, and break, as a seed has it.
type simulated struct {
	*lockServer
	ttl time.Duration

	mu    sync.Mutex
	rand  *rand.Rand
	calm  bool // nothing goes wrong any more
	conns map[*simConn]struct{}
	spent map[uint64]bool // tokens of claims that the server ended by itself: nobody may rely on them
}

func newSimulated(seed uint64, ttl time.Duration) *simulated {
	return &simulated{
		lockServer: newLockServer(), ttl: ttl, rand: rand.New(rand.NewPCG(seed, 1)),
		conns: make(map[*simConn]struct{}), spent: make(map[uint64]bool),
	}
}

// under is a random number below n.
func (s *simulated) under(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.Int64N(n)
}

// chance is true once in n times, if things may go wrong.
func (s *simulated) chance(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.Int64N(n) == 0 && !s.calm
}

// delay passes as a message does: mostly quickly.
func (s *simulated) delay() {
	d := time.Duration(s.under(int64(2 * time.Millisecond)))
	if s.chance(50) {
		d = time.Duration(s.under(int64(s.ttl)))
	}
	time.Sleep(d)
}

// kill ends sessions as an administrator does (or all: a restart); what they had, others can have at once.
func (s *simulated) kill(all bool) {
	s.lockServer.mu.Lock()
	defer s.lockServer.mu.Unlock()
	var victims []*peer
	for _, p := range s.peers {
		if all || len(victims) == 0 {
			victims = append(victims, p)
		}
	}
	s.mu.Lock()
	for _, h := range s.has {
		for _, p := range victims {
			if h.by == p {
				s.spent[h.token] = true
			}
		}
	}
	s.mu.Unlock()
	for _, p := range victims {
		s.drop(p)
	}
}

// trouble makes things go wrong until calm.
func (s *simulated) trouble() {
	for {
		time.Sleep(time.Duration(s.under(int64(s.ttl))))
		s.mu.Lock()
		calm := s.calm
		var some *simConn
		for c := range s.conns {
			if some == nil || s.rand.IntN(len(s.conns)) == 0 {
				some = c
			}
		}
		s.mu.Unlock()
		if calm {
			return
		}
		switch what := s.under(10); {
		case what == 0:
			s.kill(true)
		case what < 3:
			s.kill(false)
		case some == nil:
		case what < 6:
			some.end(errCut)
		default:
			some.mute()
		}
	}
}

// simConn is a connection to a simulated server.
type simConn struct {
	s      *simulated
	peer   *peer
	gone   chan struct{} // closed when the session has ended at the server
	events Events
	idle   *time.Timer

	mu     sync.Mutex
	silent bool          // nothing passes any more, in either direction
	err    error         // why it has ended for us
	over   chan struct{} // closed then
}

func (s *simulated) Dial(ctx context.Context, label string, e Events) (Conn, error) {
	s.delay()
	if ctx.Err() != nil || s.chance(20) {
		return nil, unavailable(errors.New("no route"))
	}
	c := &simConn{s: s, events: e, gone: make(chan struct{}), over: make(chan struct{})}
	hear := func(f func()) {
		go func() {
			s.delay()
			if c.passes() {
				f()
			}
		}()
	}
	c.peer = s.join(&peer{label: label, ended: func() {
		close(c.gone)
		hear(func() { c.end(errors.New("the server hung up")) })
	}, tell: func(event string, key Key) {
		if event == "freed" {
			hear(func() { e.Freed(key) })
		} else {
			hear(func() { e.Contended(key) })
		}
	}})
	c.idle = time.AfterFunc(s.ttl, func() { s.leave(c.peer) })
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	return c, nil
}

func (c *simConn) ID() string { return c.peer.id }
func (c *simConn) Close()     { c.end(errors.New("closed by us")) }

func (c *simConn) passes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.silent && c.err == nil
}

// peerOver says that the session has ended at the server, which answers nothing any more.
func (c *simConn) peerOver() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (c *simConn) mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
}

// end ends the connection for us, and unless it is silent a little later for the server.
func (c *simConn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.over)
	silent := c.silent
	c.mu.Unlock()
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.mu.Unlock()
	if !silent {
		go func() {
			c.s.delay()
			c.s.leave(c.peer)
		}()
	}
}

func (c *simConn) Do(ctx context.Context, ops []*Op) error { return c.request(ctx, ops, false) }
func (c *simConn) Wait(ctx context.Context, op *Op) error  { return c.request(ctx, []*Op{op}, true) }

// Listen notices the end.
func (c *simConn) Listen(ctx context.Context) error {
	select {
	case <-c.over:
		return c.err
	case <-ctx.Done():
		return nil
	}
}

func (c *simConn) request(ctx context.Context, ops []*Op, waits bool) error {
	answered := make(chan struct{})
	there := make([]*Op, len(ops))
	for i, op := range ops {
		there[i] = &Op{Kind: op.Kind, Key: op.Key, ID: op.ID}
	}
	go func() {
		c.s.delay()
		if !c.passes() {
			return
		}
		c.idle.Stop()
		for _, op := range there {
			if !waits {
				c.s.do(c.peer, op)
				continue
			}
			granted := make(chan struct{})
			c.s.wait(c.peer, op, func(*Op) { close(granted) })
			select {
			case <-granted:
			case <-c.gone:
				return
			}
		}
		if c.peerOver() {
			return
		}
		c.idle.Reset(c.s.ttl)
		if c.s.chance(100) {
			c.end(errCut) // the answer is lost
			return
		}
		c.s.delay()
		if c.passes() {
			close(answered)
		}
	}()
	select {
	case <-answered:
		for i, op := range ops {
			op.OK, op.Token = there[i].OK, there[i].Token
		}
		return nil
	case <-c.over:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
