package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// The fake's protocol: a line of JSON each way. Kinds are letters, so that a proxy can tell requests apart.
const kindLetters = "TFPALEQ"

type wireOp struct {
	K   string // kind
	Key Key    `json:",omitempty"`
	ID  string `json:",omitempty"`
	OK  bool   `json:",omitempty"`
	Tok uint64 `json:",omitempty"`
	Err string `json:",omitempty"`
}

type wireMessage struct {
	Hello time.Duration `json:",omitempty"` // with the label: the idle time-out
	Label string        `json:",omitempty"`
	ID    string        `json:",omitempty"` // the answer to it
	Wait  bool          `json:",omitempty"`
	Ops   []wireOp      `json:",omitempty"`
	Event string        `json:",omitempty"`
	Key   Key           `json:",omitempty"`
}

// netServer serves a lockServer on a socket.
type netServer struct {
	*lockServer
	listener net.Listener
	running  sync.WaitGroup
}

func serve(t testing.TB) *netServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &netServer{lockServer: newLockServer(), listener: listener}
	s.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.restart(true)
		s.running.Wait()
		require.Empty(t, s.mistakes())
	})
	return s
}

func (s *netServer) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	var writing sync.Mutex
	send := func(m wireMessage) {
		p, _ := json.Marshal(m)
		writing.Lock()
		defer writing.Unlock()
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(append(p, '\n'))
	}
	var hello wireMessage
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &hello) != nil || hello.Hello == 0 {
		return
	}
	p := s.join(&peer{
		label: hello.Label, ended: func() { _ = conn.Close() },
		tell: func(event string, key Key) { go send(wireMessage{Event: event, Key: key}) },
	})
	defer s.leave(p)
	send(wireMessage{ID: p.id})
	requests, over := make(chan wireMessage), make(chan struct{})
	defer close(over)
	go func() {
		defer close(requests)
		for lines.Scan() {
			var m wireMessage
			if json.Unmarshal(lines.Bytes(), &m) != nil {
				return
			}
			select {
			case requests <- m:
			case <-over:
				return
			}
		}
	}()
	for {
		idle := time.NewTimer(hello.Hello)
		select {
		case m, ok := <-requests:
			idle.Stop()
			if !ok || !s.carryOut(p, m, send, requests) {
				return
			}
		case <-idle.C:
			return
		}
	}
}

// carryOut answers one request. false: the client hung up while it waited.
func (s *netServer) carryOut(p *peer, m wireMessage, send func(wireMessage), requests <-chan wireMessage) bool {
	ops := make([]*Op, len(m.Ops))
	for i, w := range m.Ops {
		for k := range kindLetters {
			if kindLetters[k] == w.K[0] {
				ops[i] = &Op{Kind: Kind(k), Key: w.Key, ID: w.ID}
			}
		}
		if !m.Wait {
			s.do(p, ops[i])
			continue
		}
		granted := make(chan struct{})
		s.wait(p, ops[i], func(*Op) { close(granted) })
		select {
		case <-granted:
		case <-requests: // nothing is asked meanwhile: it is the end
			return false
		}
	}
	for i, op := range ops {
		m.Ops[i].OK, m.Ops[i].Tok = op.OK, op.Token
		if op.Err != nil {
			m.Ops[i].Err = op.Err.Error()
		}
	}
	send(wireMessage{Ops: m.Ops})
	return true
}

// netDialer is a Server that dials a netServer.
type netDialer struct {
	addr string
	ttl  time.Duration
	n    atomic.Int64
}

func (d *netDialer) Dial(ctx context.Context, label string, e Events) (Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	c := &netConn{raw: raw, ttl: d.ttl, events: e, lines: bufio.NewScanner(raw), over: make(chan struct{}), inline: d.n.Add(1)%2 == 0}
	c.lines.Buffer(nil, 1<<20)
	c.write(wireMessage{Hello: d.ttl, Label: label})
	var m wireMessage
	if !c.lines.Scan() || json.Unmarshal(c.lines.Bytes(), &m) != nil || !stop() {
		_ = raw.Close()
		return nil, fmt.Errorf("%w: no greeting", driver.ErrUnavailable)
	}
	c.id = m.ID
	go c.read()
	return c, nil
}

// netConn is a Conn of a netServer. Every second one calls done on the caller's goroutine where it can.
type netConn struct {
	raw    net.Conn
	id     string
	ttl    time.Duration
	events Events
	lines  *bufio.Scanner
	inline bool

	mu     sync.Mutex
	err    error
	over   chan struct{}
	ops    []*Op
	done   func(error)
	answer chan error // who waits in Do
	timer  *time.Timer
}

func (c *netConn) ID() string             { return c.id }
func (c *netConn) Silence() time.Duration { return c.ttl }
func (c *netConn) Close()                 { c.end(errors.New("closed by us")) }

func (c *netConn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		_ = c.raw.Close()
	}
}

func (c *netConn) write(m wireMessage) {
	p, _ := json.Marshal(m)
	_ = c.raw.SetWriteDeadline(time.Now().Add(c.ttl))
	_, _ = c.raw.Write(append(p, '\n'))
}

func (c *netConn) read() {
	for c.lines.Scan() {
		var m wireMessage
		if err := json.Unmarshal(c.lines.Bytes(), &m); err != nil {
			c.end(err)
			break
		}
		switch {
		case m.Event == "freed":
			c.events.Freed(m.Key)
		case m.Event == "contended":
			c.events.Contended(m.Key)
		default:
			c.mu.Lock()
			for i, w := range m.Ops {
				c.ops[i].OK, c.ops[i].Token = w.OK, w.Tok
				if w.Err != "" {
					c.ops[i].Err = fmt.Errorf("%w: %s", driver.ErrRefused, w.Err)
				}
			}
			c.mu.Unlock()
			c.settle(nil)
		}
	}
	c.end(errors.New("the server hung up"))
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	c.events.Ended(err)
	c.settle(err)
}

// settle has done called, here or by who waits in Do.
func (c *netConn) settle(err error) {
	c.mu.Lock()
	done, answer := c.done, c.answer
	c.done, c.answer, c.ops = nil, nil, nil
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.mu.Unlock()
	switch {
	case answer != nil:
		answer <- err
	case done != nil:
		done(err)
	}
}

func (c *netConn) Do(ctx context.Context, ops []*Op, done func(error)) {
	answer := c.ask(ops, done, false)
	if answer == nil {
		return
	}
	select {
	case err := <-answer:
		done(err)
	case <-ctx.Done():
		c.mu.Lock()
		if c.answer == answer {
			c.answer = nil // it is the reader's to call done
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		done(<-answer)
	}
}

func (c *netConn) Wait(_ context.Context, op *Op, done func(error)) { c.ask([]*Op{op}, done, true) }

func (c *netConn) ask(ops []*Op, done func(error), wait bool) (answer chan error) {
	m := wireMessage{Wait: wait, Ops: make([]wireOp, len(ops))}
	for i, op := range ops {
		m.Ops[i] = wireOp{K: kindLetters[op.Kind : op.Kind+1], Key: op.Key, ID: op.ID}
	}
	c.mu.Lock()
	if c.done != nil {
		panic("two requests at once")
	}
	if err := c.err; err != nil {
		c.mu.Unlock()
		done(err)
		return nil
	}
	c.ops, c.done = ops, done
	if c.inline && !wait {
		answer = make(chan error, 1)
		c.answer = answer
	}
	if !wait {
		c.timer = time.AfterFunc(c.ttl, func() { c.end(errors.New("no answer in time")) })
	}
	c.mu.Unlock()
	c.write(m)
	return answer
}
