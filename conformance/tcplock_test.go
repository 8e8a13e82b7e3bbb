package conformance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// lockServer is a server of locks over TCP. A request is a line "take|keep|drop name owner milliseconds"; the reply is "yes" or "no".
type lockServer struct {
	mu    sync.Mutex
	held  map[string]hold
	never map[string]bool // owners that have dropped: no claim of theirs that arrives late is granted
}

type hold struct {
	owner string
	until time.Time
}

func newLockServer(t *testing.T) (*lockServer, string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	s := &lockServer{held: make(map[string]hold), never: make(map[string]bool)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s, listener.Addr().String()
}

func (s *lockServer) serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var what, name, owner string
		var ms int64
		_, _ = fmt.Sscanf(lines.Text(), "%s %q %q %d", &what, &name, &owner, &ms)
		reply := "no\n"
		if s.do(what, name, owner, time.Duration(ms)*time.Millisecond) {
			reply = "yes\n"
		}
		_, _ = conn.Write([]byte(reply))
	}
}

func (s *lockServer) do(what, name, owner string, ttl time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, taken := s.held[name]
	taken = taken && time.Now().Before(h.until)
	ours := taken && h.owner == owner
	switch what {
	case "take":
		if taken || s.never[owner] {
			return false
		}
		s.held[name] = hold{owner, time.Now().Add(ttl)}
		return true
	case "keep":
		if ours {
			s.held[name] = hold{owner, time.Now().Add(ttl)}
		}
	case "drop":
		s.never[owner] = true
		if ours {
			delete(s.held, name)
		}
	}
	return ours
}

// remove is what an operator does.
func (s *lockServer) remove(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, name)
	return nil
}

// tcpLock is a driver for it, as small as one can be: a few connections, each with one request under way.
type tcpLock struct {
	addr string
	busy chan struct{} // one for each request under way

	mu   sync.Mutex
	idle []net.Conn // the one that was used last is the last
}

func openTCP(_ context.Context, addr string) (driver.Backend, error) {
	return &tcpLock{addr: addr, busy: make(chan struct{}, 8)}, nil
}

// take takes an idle connection. There may be none.
func (b *tcpLock) take() (conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.idle); n > 0 {
		conn, b.idle = b.idle[n-1], b.idle[:n-1]
	}
	return conn
}

func (b *tcpLock) ask(ctx context.Context, what string, req driver.Request) (yes bool, err error) {
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-ctx.Done():
		return false, fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err())
	}
	conn := b.take()
	if conn == nil {
		if conn, err = new(net.Dialer).DialContext(ctx, "tcp", b.addr); err != nil {
			return false, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	_, _ = fmt.Fprintf(conn, "%s %q %q %d\n", what, req.Name, req.Owner, req.TTL.Milliseconds())
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if stop() && err == nil {
		b.mu.Lock()
		b.idle = append(b.idle, conn)
		b.mu.Unlock()
	} else {
		_ = conn.Close()
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", driver.ErrUnknown, errors.Join(err, ctx.Err()))
	}
	return reply == "yes\n", nil
}

// Close waits for the requests under way; there are no others after it.
func (b *tcpLock) Close() error {
	for range cap(b.busy) {
		b.busy <- struct{}{}
	}
	for conn := b.take(); conn != nil; conn = b.take() {
		_ = conn.Close()
	}
	return nil
}

func (b *tcpLock) Capabilities() driver.Capabilities {
	return driver.Capabilities{Backend: "tcp", Ends: driver.EndsTTL, TTLGrain: time.Millisecond}
}

func (b *tcpLock) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	sent := time.Now()
	got, err := b.ask(ctx, "take", req)
	switch {
	case err != nil:
		return nil, err
	case !got:
		return nil, driver.ErrHeld
	}
	return &tcpLease{b: b, req: req, grant: driver.Grant{Until: sent.Add(req.TTL)}}, nil
}

func (b *tcpLock) Abandon(ctx context.Context, req driver.Request) error {
	_, err := b.ask(ctx, "drop", req)
	return err
}

type tcpLease struct {
	b     *tcpLock
	req   driver.Request
	grant driver.Grant

	mu       sync.Mutex
	released bool
}

func (l *tcpLease) Grant() driver.Grant { return l.grant }

func (l *tcpLease) Renew(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	ours, err := l.b.ask(ctx, "keep", l.req)
	if err == nil && !ours {
		err = driver.ErrLost
	}
	return sent.Add(l.req.TTL), err
}

func (l *tcpLease) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	ours, err := l.b.ask(ctx, "drop", l.req)
	if err == nil && !ours {
		err = driver.ErrLost
	}
	l.released = err == nil
	return err
}
