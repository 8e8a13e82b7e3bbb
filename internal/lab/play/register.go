package play

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
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
	server   *rpc.Server

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

// RegisterRequest is what goes over a connection. Without Write it reads.
type RegisterRequest struct {
	Name  string
	Token lockport.Token
	Write *RegisterValues
}

// RegisterValues are the two numbers of a name.
type RegisterValues struct{ Fenced, Bare int64 }

// RegisterReply is what the register answers: what it has now. With Stale the fence refused the token.
type RegisterReply struct {
	RegisterValues
	Stale *fence.StaleError
}

// NewRegister starts a register on a port of its own. The caller must Close it.
func NewRegister() (*Register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("play: register: %w", err)
	}
	r := &Register{listener: l, conns: make(map[net.Conn]struct{}), names: make(map[string]*numbers), server: rpc.NewServer()}
	if err := r.server.RegisterName("Register", registerService{r}); err != nil {
		return nil, err
	}
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

// attach serves a connection until it ends, or the register is closed. It holds nothing while it sends, so that a client that does not read waits alone.
func (r *Register) attach(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return
	}
	r.conns[c] = struct{}{}
	r.serving.Go(func() {
		r.server.ServeConn(c)
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
	})
}

// registerService is what clients call, by package net/rpc.
type registerService struct{ register *Register }

// Do reads or writes.
func (s registerService) Do(req RegisterRequest, reply *RegisterReply) error {
	r := s.register
	if req.Token != 0 {
		// What is under the fence goes through it as a whole: no other token is registered between this one and what it reads or writes.
		err := r.fence.Do(context.Background(), req.Name, req.Token, func() error {
			reply.Fenced = r.change(req, func(n *numbers, w *RegisterValues) { n.fenced.write(w.Fenced) }).fenced.value
			return nil
		})
		if err != nil && !errors.As(err, &reply.Stale) {
			return err
		}
	}
	reply.Bare = r.change(req, func(n *numbers, w *RegisterValues) { n.bare.write(w.Bare) }).bare.value
	return nil
}

// change writes what the request says, if anything, and returns what is then there.
func (r *Register) change(req RegisterRequest, write func(*numbers, *RegisterValues)) numbers {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of(req.Name)
	if req.Write != nil {
		write(n, req.Write)
	}
	return *n
}

// RegisterClient is a worker's connection to a [Register]. Safe for concurrent use.
type RegisterClient struct{ rpc *rpc.Client }

// DialRegister connects to the register at addr. The caller must Close the client.
func DialRegister(addr string) (*RegisterClient, error) {
	c, err := rpc.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("play: register: %w", err)
	}
	return &RegisterClient{c}, nil
}

// Read registers token with the fence and returns the two numbers of name. An error that matches [fence.ErrStale] says that a newer token was seen: then
// bare is right nevertheless, and fenced is 0. With a token of 0, of a backend that has none, there is no fence: fenced is 0. After ctx's end it
// returns at once, and may have registered the token.
func (c *RegisterClient) Read(ctx context.Context, name string, token lockport.Token) (fenced, bare int64, err error) {
	reply, err := c.ask(ctx, RegisterRequest{Name: name, Token: token})
	return reply.Fenced, reply.Bare, err
}

// Write writes the two numbers of name: the bare one always, the fenced one only if token is not 0 and no newer one was seen. Otherwise the error matches
// [fence.ErrStale], or is nil with a token of 0. After another error, ctx's end among them, it may have been carried out or not.
func (c *RegisterClient) Write(ctx context.Context, name string, token lockport.Token, fenced, bare int64) error {
	_, err := c.ask(ctx, RegisterRequest{Name: name, Token: token, Write: &RegisterValues{fenced, bare}})
	return err
}

// Close ends the connection.
func (c *RegisterClient) Close() error { return c.rpc.Close() }

func (c *RegisterClient) ask(ctx context.Context, req RegisterRequest) (RegisterReply, error) {
	var reply RegisterReply
	call := c.rpc.Go("Register.Do", req, &reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return RegisterReply{}, fmt.Errorf("play: register: %w", context.Cause(ctx)) // reply may still be written to
	}
	switch {
	case call.Error != nil:
		return RegisterReply{}, fmt.Errorf("play: register: %w", call.Error)
	case reply.Stale != nil:
		return reply, fmt.Errorf("play: register: %w", reply.Stale)
	}
	return reply, nil
}
