package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy forwards connections to its target, and breaks them when told to. Safe for concurrent use.
type Proxy struct {
	listener *net.TCPListener
	running  sync.WaitGroup

	mu       sync.Mutex // guards all below, and the flags of every conn
	target   string
	changed  chan struct{}
	conns    map[*conn]struct{}
	requests int64
	closed   bool
	faults   faults
}

// New listens on a free port of 127.0.0.1 and forwards every connection to target, a "host:port". The target is dialled
// for each connection, so it need not be up yet; a connection whose target cannot be dialled is closed. The error
// is that of a malformed target or of the listener. The caller owns the proxy and must Close it.
func New(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("faultproxy: target: %w", err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{
		target:   target,
		listener: listener,
		changed:  make(chan struct{}),
		conns:    make(map[*conn]struct{}),
	}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is the proxy's own address, "127.0.0.1:port", to give to the client in place of the target's. It never changes.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Retarget forwards every connection that is dialled on from now on to another target, a "host:port", as when a name or a service's
// address moves to another server. Live connections stay with the server that they have: see KillConns.
func (p *Proxy) Retarget(target string) error {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return fmt.Errorf("faultproxy: target: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	return nil
}

// Close closes the listener and every connection, and returns when no goroutine of the proxy is left. Faults that
// wait for a request stay unfulfilled. Further calls do nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.killAll()
	p.mu.Unlock()
	var err error
	if first {
		err = p.listener.Close()
	}
	p.running.Wait()
	return err
}

// Requests counts the requests that clients sent through the proxy since New, those included that are held or were
// never forwarded because of a fault.
func (p *Proxy) Requests() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Conns counts the live connections: accepted, and closed by neither side nor by a fault.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.conns {
		if !c.hungUp {
			n++
		}
	}
	return n
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if err == nil {
			p.adopt(client)
			continue
		}
		p.mu.Lock()
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return
		}
		time.Sleep(time.Millisecond) // out of file descriptors, most likely: the next attempt may do better
	}
}

// adopt starts a connection, or closes it if the proxy is cut or closed.
func (p *Proxy) adopt(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.faults.cut {
		_ = client.Close()
		return
	}
	c := &conn{p: p, client: client}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	p.conns[c] = struct{}{}
	p.running.Go(c.run)
}

// signal wakes everybody in await. p.mu is held.
func (p *Proxy) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// await blocks until ok, which is called with p.mu held, and reports false if c was killed instead.
func (p *Proxy) await(c *conn, ok func() bool) bool {
	for {
		p.mu.Lock()
		ready, changed := ok(), p.changed
		p.mu.Unlock()
		if c.ctx.Err() != nil {
			return false
		}
		if ready {
			return true
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			return false
		}
	}
}

// sever is Cut, save that last may still send what it has. p.mu is held.
func (p *Proxy) sever(last *conn) {
	p.faults.cut = true
	for c := range p.conns {
		if c != last {
			c.kill()
		}
	}
}

// killAll closes every connection, hung-up ones included. p.mu is held.
func (p *Proxy) killAll() {
	for c := range p.conns {
		c.kill()
	}
}
