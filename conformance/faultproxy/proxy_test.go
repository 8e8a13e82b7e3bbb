package faultproxy

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForwards(t *testing.T) {
	p, _ := setUp(t)
	a, b := dial(t, p), dial(t, p)
	a.call("one")
	b.call("two")
	a.call("three")
	require.EqualValues(t, 3, p.Requests())
	require.Equal(t, 2, p.Conns())
	require.NoError(t, a.Close())
	eventually(t, func() bool { return p.Conns() == 1 })
}

func TestPassesOnCloses(t *testing.T) {
	p, s := setUp(t)
	a := dial(t, p)
	a.send("bye")
	a.wantClosed()

	b := dial(t, p)
	b.send("last words")
	require.NoError(t, b.Conn.(*net.TCPConn).CloseWrite())
	b.wantReply("last words")
	b.wantClosed()
	require.True(t, s.saw("last words")())
	require.NoError(t, a.Close())
	eventually(t, func() bool { return p.Conns() == 0 })
}

func TestLargeTransfer(t *testing.T) {
	p, _ := setUp(t)
	c := dial(t, p)
	line := strings.Repeat("x", 60_000) // bufio.Scanner takes 64 KiB
	var writing sync.WaitGroup
	writing.Go(func() {
		for range 50 {
			if _, err := fmt.Fprintln(c, line); err != nil {
				return
			}
		}
	})
	for range 50 {
		c.wantReply(line)
	}
	writing.Wait()
}

func TestTargetDown(t *testing.T) {
	mine, err := net.Dial("tcp", newServer(t).Addr().String())
	require.NoError(t, err)
	defer func() { _ = mine.Close() }()
	p, err := New(mine.LocalAddr().String()) // nobody listens on the near end's port, and nobody else gets it
	require.NoError(t, err)
	dial(t, p).wantClosed()
	require.NoError(t, p.Close())
}

func TestNewRefusesMalformedTarget(t *testing.T) {
	_, err := New("nowhere")
	require.ErrorContains(t, err, "missing port")
}

func TestRetarget(t *testing.T) {
	p, first := setUp(t)
	second := newServer(t)
	old := dial(t, p)
	old.call("one")
	require.NoError(t, p.Retarget(second.Addr().String()))
	require.ErrorContains(t, p.Retarget("nowhere"), "missing port")
	old.call("two")
	fresh := dial(t, p)
	fresh.call("three")
	require.True(t, first.saw("two")(), "a live connection stays")
	require.True(t, second.saw("three")())
	require.False(t, first.saw("three")())
	require.NoError(t, p.Close())
}

func TestCloseLeavesNothing(t *testing.T) {
	s := newServer(t)
	before := runtime.NumGoroutine()
	p, err := New(s.Addr().String())
	require.NoError(t, err)
	dropped, pending := p.DropReply(nil), p.CutAfter(1000)
	a, b := dial(t, p), dial(t, p)
	a.send("dropped")
	wantFired(t, dropped)
	b.call("before") // a connection that the freeze finds accepted but not dialled on would not be read from
	p.Freeze()
	b.send("held")
	c := dial(t, p) // not even dialled on
	eventually(t, func() bool { return p.Requests() == 3 && p.Conns() == 2 })
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	b.wantClosed()
	c.wantClosed()
	require.Zero(t, p.Conns())
	wantNotFired(t, pending)
	wantGone(t, p)
	eventually(t, func() bool { return runtime.NumGoroutine() <= before }) // the server's end by themselves
}
