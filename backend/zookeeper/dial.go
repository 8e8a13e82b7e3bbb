package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// hosts is go-zookeeper's list of servers. go-zookeeper would pause for a second whenever it comes round, which with one server is
// after every lost connection: the pauses are our dialler's, and names are resolved each time that they are dialled.
type hosts struct {
	life *life
	next int
}

// Init implements zk.HostProvider.
func (h *hosts) Init([]string) error {
	h.next = rand.IntN(len(h.life.b.servers))
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.life.b.servers) }

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {}

// Next implements zk.HostProvider. Only when it says that it has come round does go-zookeeper look whether it was closed.
func (h *hosts) Next() (server string, cameRound bool) {
	l := h.life
	h.next = (h.next + 1) % h.Len()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trying {
		l.failures++
		l.row++
		l.tell()
	}
	l.trying = true
	return l.b.servers[h.next], l.over != nil
}

// dial is go-zookeeper's dialler.
func (l *life) dial(_, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := l.connect(address, timeout)
	if err != nil {
		l.mu.Lock()
		l.why = err
		l.mu.Unlock()
	}
	return conn, err
}

func (l *life) connect(address string, timeout time.Duration) (net.Conn, error) {
	if err := l.pause(); err != nil {
		return nil, err
	}
	tick := l.b.tickTime()
	if tick == 0 {
		var err error
		tick, err = l.probe(address, timeout)
		if errors.Is(err, errNoAnswer) && !isTimeout(err) && l.ctx.Err() == nil {
			// A server that takes longer for an answer than so short a session lasts ends both.
			tick, err = l.probe(address, timeout)
		}
		if err != nil {
			return nil, err
		}
		l.b.setTickTime(tick)
	}
	conn, err := l.b.dial(l.ctx, address, timeout)
	if err != nil {
		return nil, err
	}
	t := newTap(conn, l, tick, l.b.patience())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		_ = conn.Close()
		return nil, l.over
	}
	l.why = fmt.Errorf("%s: %w", address, errNoAnswer)
	l.tap = t
	return t, nil
}

// patience is how long a handshake may take.
func (b *Backend) patience() time.Duration {
	return max(time.Second, min(b.o.TTL/3, 5*time.Second))
}

// pause makes the attempts fewer when no server can be reached.
func (l *life) pause() error {
	l.mu.Lock()
	d := pauseAfter(l.row / len(l.b.servers))
	l.mu.Unlock()
	if d == 0 {
		return l.ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

func (b *Backend) dial(ctx context.Context, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return b.o.Dial(ctx, "tcp", address)
}

// probe asks for a session of one millisecond: what a server grants then is its smallest session timeout, which is two ticks unless it
// is configured otherwise.
func (l *life) probe(address string, timeout time.Duration) (tick time.Duration, err error) {
	conn, err := l.b.dial(l.ctx, address, timeout)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(l.ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(l.b.patience())); err != nil {
		return 0, err
	}
	smallest, _, err := openAndClose(conn, connectRequest(0, nil, time.Millisecond))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", address, err)
	case smallest <= 0:
		return 0, fmt.Errorf("%s granted no session", address)
	}
	return max(smallest/2, time.Millisecond), nil
}
