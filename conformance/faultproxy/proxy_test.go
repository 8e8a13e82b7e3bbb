package faultproxy

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chatter makes requests until one fails.
func chatter(p *Proxy) {
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	for replies := bufio.NewReader(conn); err == nil; {
		_, _ = fmt.Fprintln(conn, "chatter")
		_ = conn.SetReadDeadline(time.Now().Add(quiet))
		_, err = replies.ReadString('\n')
	}
}

func TestForwards(t *testing.T) {
	p, s := setUp(t)
	a, b := dial(t, p), dial(t, p)
	a.call("one")
	b.call("two")
	a.call("three")
	require.EqualValues(t, 3, p.Requests())
	require.Equal(t, 2, p.Conns())
	require.NoError(t, a.Close())
	wantConns(t, p, 1)

	// Closes are forwarded too, in both directions.
	b.send("bye")
	b.wantClosed()
	c := dial(t, p)
	c.send("last words")
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	c.wantReplies("last words")
	c.wantClosed()
	require.True(t, s.saw("last words"))
	require.NoError(t, b.Close())
	wantConns(t, p, 0)
}

// A connection that its client has closed is not counted, however long the server takes to close it.
func TestServerThatIsSlowToClose(t *testing.T) {
	p := before(t, listen(t).Addr()) // nobody accepts, so the system keeps the connection open
	c := dial(t, p)
	wantConns(t, p, 1)
	require.NoError(t, c.Close())
	wantConns(t, p, 0)
}

func TestTargets(t *testing.T) {
	_, err := New("nowhere")
	require.ErrorContains(t, err, "missing port")

	mine, err := net.Dial("tcp", newServer(t).Addr().String())
	require.NoError(t, err)
	defer func() { _ = mine.Close() }()
	dial(t, before(t, mine.LocalAddr())).wantClosed() // nobody listens on this port, and nobody can take it

	p, first := setUp(t)
	second := newServer(t)
	old := dial(t, p)
	old.call("one")
	require.NoError(t, p.Retarget(second.Addr().String()))
	require.ErrorContains(t, p.Retarget("nowhere"), "missing port")
	old.call("two")
	dial(t, p).call("three")
	require.True(t, first.saw("two") && second.saw("three") && !first.saw("three"), "live connections stay, new ones do not")
}

func TestCloseLeavesNothing(t *testing.T) {
	s := newServer(t)
	goroutines := runtime.NumGoroutine()
	p := before(t, s.Addr())
	dropped, pending := p.DropReply(nil), p.CutAfter(1000)
	a, b := dial(t, p), dial(t, p)
	a.send("dropped")
	wantFired(t, dropped)
	b.call("before") // makes sure that b is dialed before the freeze, or it would not be read
	p.Freeze()
	b.send("held")
	c := dial(t, p) // not even dialed
	eventually(t, func() bool { return p.Requests() == 3 && p.Conns() == 2 })
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	b.wantClosed()
	c.wantClosed()
	require.Zero(t, p.Conns())
	require.False(t, isClosed(pending))
	wantGone(t, p)
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines }) // the server's goroutines end too
}
