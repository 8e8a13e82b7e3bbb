package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy forwards connections to its target, and injects faults. It is safe for concurrent use.
type Proxy struct {
	listener *net.TCPListener
	running  sync.WaitGroup

	mu       sync.Mutex // guards all below, and the flags of every conn
	target   string
	changed  *sync.Cond // a fault has ended, or a connection
	conns    map[*conn]struct{}
	requests int64
	closed   bool
	faults   faults
}

// New listens on a free port of 127.0.0.1 and forwards every connection to target, a "host:port". It dials the target for each
// connection, so the target need not be up yet; a connection whose target cannot be dialed is closed. New fails if target is
// malformed or the listener fails. The caller owns the proxy and must Close it.
func New(target string) (*Proxy, error) {
	p := &Proxy{conns: make(map[*conn]struct{})}
	p.changed = sync.NewCond(&p.mu)
	if err := p.Retarget(target); err != nil {
		return nil, err
	}
	var err error
	if p.listener, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the proxy's address, "127.0.0.1:port", which the client uses instead of the target's. It never changes.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Retarget forwards later connections to another target, a "host:port", as when a service's address moves to another server. Live
// connections stay with their server: see KillConns.
func (p *Proxy) Retarget(target string) error {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return fmt.Errorf("faultproxy: target: %w", err)
	}
	p.locked(func() { p.target = target })
	return nil
}

// Close closes the listener and every connection, and returns when no goroutine of the proxy is left. Faults that still wait for
// a request never happen. Further calls do nothing.
func (p *Proxy) Close() (err error) {
	p.locked(func() {
		if !p.closed {
			err = p.listener.Close()
		}
		p.closed = true
		p.killAll(nil)
	})
	p.running.Wait()
	return err
}

// Requests counts the requests that clients sent through the proxy since New, including those that a fault holds or drops.
func (p *Proxy) Requests() (n int64) {
	p.locked(func() { n = p.requests })
	return n
}

// Conns counts the live connections: accepted, and not closed by the client, the server or a fault. A connection that the client
// closed does not count even if a busy server has not closed it yet.
func (p *Proxy) Conns() (n int) {
	p.locked(func() {
		for c := range p.conns {
			if !c.hungUp && !c.clientDone {
				n++
			}
		}
	})
	return n
}

func (p *Proxy) accept() {
	for closed := false; !closed; {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			time.Sleep(time.Millisecond) // unless closed: probably out of file descriptors, so try again
		}
		p.locked(func() {
			closed = p.closed
			if err != nil {
				return
			}
			if p.closed || p.faults.cut {
				_ = client.Close()
				return
			}
			c := &conn{p: p, client: client}
			c.ctx, c.cancel = context.WithCancel(context.Background())
			p.conns[c] = struct{}{}
			p.running.Go(c.run)
		})
	}
}

// locked calls f with p.mu held.
func (p *Proxy) locked(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// killAll closes every connection except but, hung-up ones included. p.mu is held.
func (p *Proxy) killAll(but *conn) {
	for c := range p.conns {
		if c != but {
			c.kill()
		}
	}
}
