package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// Register is what the locks protect: a server on this machine that has two numbers for each name. One is behind a fence, the other,
// the bare one, takes what it is given: so a history shows what a fence is worth. Holders read both and write both plus one, so that an
// update that was accepted and is not in the number was lost. Safe for concurrent use; a client that is slow, stopped or killed keeps no other waiting.
type Register struct {
	listener net.Listener
	fence    fence.Memory
	serving  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	names  map[string]*numbers
}

// numbers are what the register has for a name.
type numbers struct{ fenced, bare number }

// number is a value and how often it was written.
type number struct{ value, accepted int64 }

func (n *number) write(value int64) { *n = number{value, n.accepted + 1} }

// lost is how many of the updates that were accepted are not in the value.
func (n *number) lost() int64 { return n.accepted - n.value }

// What goes over the connection, a line of JSON each. A request with no Write reads.
type (
	request struct {
		Name  string
		Token lockport.Token
		Write *pair `json:",omitempty"`
	}
	pair     struct{ Fenced, Bare int64 }
	response struct {
		pair
		Stale *fence.StaleError `json:",omitempty"`
		Err   string            `json:",omitempty"`
	}
)

// NewRegister starts a register on a port of its own. The caller must Close it.
func NewRegister() (*Register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faults: register: %w", err)
	}
	r := &Register{listener: l, conns: make(map[net.Conn]struct{}), names: make(map[string]*numbers)}
	r.serving.Go(r.accept)
	return r, nil
}

// Addr is the address that [DialRegister] takes.
func (r *Register) Addr() string { return r.listener.Addr().String() }

// Close ends all connections, and returns when no request is under way. What the register has stays to be asked for with Lost.
func (r *Register) Close() error {
	err := r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Lost is how many updates of name were accepted and then overwritten by a value that did not know of them: with the fence, and without.
func (r *Register) Lost(name string) (fenced, bare int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of(name)
	return n.fenced.lost(), n.bare.lost()
}

// Accepted is how many updates of name were accepted: with the fence, and without.
func (r *Register) Accepted(name string) (fenced, bare int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of(name)
	return n.fenced.accepted, n.bare.accepted
}

// of is what the register has for name. The mutex is held.
func (r *Register) of(name string) *numbers {
	n := r.names[name]
	if n == nil {
		n = new(numbers)
		r.names[name] = n
	}
	return n
}

func (r *Register) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.attach(c)
	}
}

// attach serves a connection until it ends, or the register is closed.
func (r *Register) attach(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return
	}
	r.conns[c] = struct{}{}
	r.serving.Go(func() { r.serve(c) })
}

// serve answers the requests of a connection, one after the other. It holds nothing while it sends, so that a client that does not read
// waits alone.
func (r *Register) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
	}()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var req request
		if in.Decode(&req) != nil {
			return // the client has gone, perhaps in the middle of a request
		}
		if out.Encode(r.answer(req)) != nil {
			return
		}
	}
}

func (r *Register) answer(req request) response {
	var res response
	if req.Token != 0 {
		// What is under the fence goes through it as a whole: no other token is registered between this one and what it reads or writes.
		err := r.fence.Do(context.Background(), req.Name, req.Token, func() error {
			res.Fenced = r.change(req.Name, req.Write, func(n *numbers, w *pair) { n.fenced.write(w.Fenced) }).fenced.value
			return nil
		})
		if err != nil && !errors.As(err, &res.Stale) {
			res.Err = err.Error()
		}
	}
	res.Bare = r.change(req.Name, req.Write, func(n *numbers, w *pair) { n.bare.write(w.Bare) }).bare.value
	return res
}

// change writes what w says, if it is not nil, and returns what is then there.
func (r *Register) change(name string, w *pair, write func(*numbers, *pair)) numbers {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of(name)
	if w != nil {
		write(n, w)
	}
	return *n
}

// RegisterClient is a worker's connection to a [Register]. Safe for concurrent use; requests go one after the other.
type RegisterClient struct {
	addr string
	turn chan struct{} // has an element while no request is under way

	// Of the one whose turn it is.
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// DialRegister connects to the register at addr.
func DialRegister(addr string) (*RegisterClient, error) {
	c := &RegisterClient{addr: addr, turn: make(chan struct{}, 1)}
	if err := c.dial(context.Background()); err != nil {
		return nil, err
	}
	c.turn <- struct{}{}
	return c, nil
}

// Read registers token with the fence, and returns the two numbers of name. An error that matches [fence.ErrStale] says that a newer
// token was seen: then bare is right nevertheless, and fenced is 0. With a token of 0, of a backend that has none, there is no fence: fenced is 0.
// After ctx's end it returns at once, and may have registered the token.
func (c *RegisterClient) Read(ctx context.Context, name string, token lockport.Token) (fenced, bare int64, err error) {
	res, err := c.ask(ctx, request{Name: name, Token: token})
	return res.Fenced, res.Bare, err
}

// Write writes the two numbers of name: the bare one always, the fenced one only if token is not 0 and no newer one was seen; otherwise
// the error matches [fence.ErrStale], or, with a token of 0, is nil. After another error, ctx's end among them, it may have been carried out or not.
func (c *RegisterClient) Write(ctx context.Context, name string, token lockport.Token, fenced, bare int64) error {
	_, err := c.ask(ctx, request{Name: name, Token: token, Write: &pair{fenced, bare}})
	return err
}

// Close ends the connection.
func (c *RegisterClient) Close() error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	return c.hangUp()
}

func (c *RegisterClient) ask(ctx context.Context, req request) (response, error) {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return response{}, context.Cause(ctx)
	}
	defer func() { c.turn <- struct{}{} }()
	res, err := c.exchange(ctx, req)
	switch {
	case err != nil:
		_ = c.hangUp() // an answer that comes late must not be taken for that of the next request
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return response{}, fmt.Errorf("faults: register: %w", err)
	case res.Stale != nil:
		return res, fmt.Errorf("faults: register: %w", res.Stale)
	case res.Err != "":
		return response{}, fmt.Errorf("faults: register: %s", res.Err)
	}
	return res, nil
}

func (c *RegisterClient) exchange(ctx context.Context, req request) (res response, err error) {
	if c.conn == nil {
		if err := c.dial(ctx); err != nil {
			return res, err
		}
	}
	conn := c.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if !stop() { // it closes the connection now or has done so
			_ = c.hangUp()
		}
	}()
	if err := c.out.Encode(req); err != nil {
		return res, err
	}
	return res, c.in.Decode(&res)
}

func (c *RegisterClient) dial(ctx context.Context) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("faults: register: %w", err)
	}
	c.conn, c.in, c.out = conn, json.NewDecoder(conn), json.NewEncoder(conn)
	return nil
}

func (c *RegisterClient) hangUp() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}
