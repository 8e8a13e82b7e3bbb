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
	changed  chan struct{} // closed when a fault ends
	conns    map[*conn]struct{}
	requests int64
	closed   bool
	faults   faults
}

// New listens on a free port of 127.0.0.1 and forwards every connection to target, a "host:port". The target is dialled
// for each connection, so it need not be up yet; a connection whose target cannot be dialled is closed. The error
// is that of a malformed target or of the listener. The caller owns the proxy and must Close it.
func New(target string) (*Proxy, error) {
	p := &Proxy{changed: make(chan struct{}), conns: make(map[*conn]struct{})}
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

// Addr is the proxy's own address, "127.0.0.1:port", to give to the client in place of the target's. It never changes.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Retarget forwards every connection that is dialled on from now on to another target, a "host:port", as when a name or a service's
// address moves to another server. Live connections stay with the server that they have: see KillConns.
func (p *Proxy) Retarget(target string) error {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return fmt.Errorf("faultproxy: target: %w", err)
	}
	p.locked(func() { p.target = target })
	return nil
}

// Close closes the listener and every connection, and returns when no goroutine of the proxy is left. Faults that
// wait for a request stay unfulfilled. Further calls do nothing.
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

// Requests counts the requests that clients sent through the proxy since New, those included that are held or were
// never forwarded because of a fault.
func (p *Proxy) Requests() (n int64) {
	p.locked(func() { n = p.requests })
	return n
}

// Conns counts the live connections: accepted, and closed neither by the client nor by the server or a fault. One that the client has closed is not
// counted, although a busy server may take its time to close it too.
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
			time.Sleep(time.Millisecond) // if not closed, out of file descriptors, most likely: the next attempt may do better
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

// signal wakes everybody in await. p.mu is held.
func (p *Proxy) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// killAll closes every connection but one, hung-up ones included. p.mu is held.
func (p *Proxy) killAll(but *conn) {
	for c := range p.conns {
		if c != but {
			c.kill()
		}
	}
}
