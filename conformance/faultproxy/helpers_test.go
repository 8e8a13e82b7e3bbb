package faultproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience limits waits for what must happen; quiet is how long to watch for what must not.
const (
	patience = 10 * time.Second
	quiet    = 50 * time.Millisecond
)

// server answers each line with "echo " and the line, and remembers it. It hangs up on "bye".
type server struct {
	net.Listener
	t     *testing.T
	mu    sync.Mutex
	lines string
}

// listen returns a listener that is closed at the end.
func listen(t *testing.T) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func newServer(t *testing.T) *server {
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	s := &server{Listener: listen(t), t: t, lines: "\n"}
	serving.Go(func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	return s
}

func (s *server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		s.mu.Lock()
		s.lines += lines.Text() + "\n"
		s.mu.Unlock()
		if lines.Text() == "bye" {
			return
		}
		_, _ = fmt.Fprintln(conn, "echo", lines.Text()) // if that fails, so does the next Scan
	}
}

func (s *server) saw(line string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.lines, "\n"+line+"\n")
}

// sees waits until the server has received a line.
func (s *server) sees(line string) {
	s.t.Helper()
	eventually(s.t, func() bool { return s.saw(line) })
}

// setUp returns a proxy in front of a new server. The proxy is closed before the server, or the server would wait for its clients.
func setUp(t *testing.T) (*Proxy, *server) {
	s := newServer(t)
	return before(t, s.Addr()), s
}

// before returns a proxy in front of target.
func before(t *testing.T, target net.Addr) *Proxy {
	p, err := New(target.String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

type client struct {
	t *testing.T
	net.Conn
	replies *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(lines ...string) {
	for _, line := range lines {
		_, err := fmt.Fprintln(c, line)
		require.NoError(c.t, err)
	}
}

func (c *client) wantReplies(lines ...string) {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(patience)))
	for _, line := range lines {
		got, err := c.replies.ReadString('\n')
		require.NoError(c.t, err)
		require.Equal(c.t, "echo "+line+"\n", got)
	}
}

func (c *client) call(line string) {
	c.t.Helper()
	c.send(line)
	c.wantReplies(line)
}

// wantClosed requires the connection to end without another byte.
func (c *client) wantClosed() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(patience)))
	got, err := io.ReadAll(c.replies)
	require.Empty(c.t, got)
	timeout, ok := errors.AsType[net.Error](err)
	require.False(c.t, ok && timeout.Timeout(), "still open")
}

// wantSilence requires the connection to stay open without another byte.
func (c *client) wantSilence() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(quiet)))
	_, err := c.replies.ReadByte()
	var timeout net.Error
	require.ErrorAs(c.t, err, &timeout)
	require.True(c.t, timeout.Timeout(), "%v", err)
}

// wantGone requires that the proxy has closed its listener. Another process may have its port by now.
func wantGone(t *testing.T, p *Proxy) {
	t.Helper()
	_, err := p.listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) { // in this goroutine, because one test counts goroutines
		require.True(t, time.Now().Before(deadline), "did not come true within %v", patience)
	}
}

func wantConns(t *testing.T, p *Proxy, n int) {
	t.Helper()
	eventually(t, func() bool { return p.Conns() == n })
}

func wantFired(t *testing.T, fired <-chan struct{}) {
	t.Helper()
	eventually(t, func() bool { return isClosed(fired) })
}

func isClosed(fired <-chan struct{}) bool {
	select {
	case <-fired:
		return true
	default:
		return false
	}
}
