package session

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lined is a line whose answers are single bytes, and the server's end of its connection.
type lined struct {
	Line
	server net.Conn
	got    chan byte // asked for at the server
	ends   chan error
	stays  atomic.Bool
	socket net.Conn
}

func newLined(t *testing.T) *lined {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	x := &lined{got: make(chan byte, 10), ends: make(chan error, 1)}
	x.socket, err = net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	x.server, err = listener.Accept()
	require.NoError(t, err)
	x.Init(LineOptions{Socket: x.socket, Receive: x.receive, Stays: x.stays.Load, End: x.end})
	t.Cleanup(func() {
		x.end(errClosed)
		_ = x.server.Close()
	})
	go func() {
		var p [1]byte
		for {
			if _, err := x.server.Read(p[:]); err != nil {
				return
			}
			x.got <- p[0]
		}
	}()
	return x
}

func (x *lined) receive() (done bool) {
	var p [1]byte
	if _, err := x.socket.Read(p[:]); err != nil {
		if x.Failed(err) {
			x.end(err)
		}
		return false
	}
	x.Lock()
	tell := x.Land(nil)
	x.Unlock()
	tell(nil)
	return true
}

func (x *lined) end(err error) {
	if x.End(err, func() {}) {
		x.ends <- err
	}
}

// fly begins a flight on a goroutine of its own.
func (x *lined) fly(f Flight) (returned chan struct{}, done chan error) {
	returned, done = make(chan struct{}), make(chan error, 2)
	f.Done = func(err error) { done <- err }
	x.Lock()
	go func() {
		x.Fly(f, []byte("?"))
		close(returned)
	}()
	<-x.got // which comes after Fly has taken over the mutex
	return returned, done
}

func (x *lined) answer(t *testing.T) {
	_, err := x.server.Write([]byte("!"))
	require.NoError(t, err)
}

// TestLineIsReadByWhoAsks: with the reader at the socket or not, one after the other, and until the context ends. The reader goes on for a caller who has
// left, and nothing of that flight comes to the next.
func TestLineIsReadByWhoAsks(t *testing.T) {
	for _, c := range []struct{ blocks, stays bool }{{false, false}, {true, false}, {false, true}} {
		x := newLined(t)
		x.stays.Store(c.stays)
		x.Begin()
		for i := range 30 {
			ctx, cancel := context.WithCancel(t.Context())
			returned, done := x.fly(Flight{Context: ctx, Patience: time.Minute, Blocks: c.blocks})
			switch i % 3 {
			case 0: // the answer comes
				x.answer(t)
				<-returned
				require.Len(t, done, 1)
			case 1: // the context ends first
				cancel()
				<-returned
				require.Empty(t, done)
				x.answer(t)
			case 2: // both
				go cancel()
				x.answer(t)
				<-returned
			}
			require.NoError(t, <-done)
			require.Empty(t, done)
			cancel()
		}
		require.Empty(t, x.ends)
	}
}

// TestLineIsLeftByWhoIsToldAtTheSameMoment: the reader lands a flight when its asker has begun to leave.
func TestLineIsLeftByWhoIsToldAtTheSameMoment(t *testing.T) {
	for range 20 {
		x := newLined(t)
		x.Begin()
		ctx, cancel := context.WithCancel(t.Context())
		returned, done := x.fly(Flight{Context: ctx})
		x.Lock()
		cancel()
		runtime.Gosched() // he waits for the mutex, as a rule
		tell := x.Land(nil)
		x.Unlock()
		tell(nil)
		<-returned
		require.NoError(t, <-done)
		require.Empty(t, x.landed)
	}
}

// TestLineIsLeftAfterALongTime, when nobody has had a reason to look for some time.
func TestLineIsLeftAfterALongTime(t *testing.T) {
	for range 2 {
		x := newLined(t)
		ctx, cancel := context.WithCancel(t.Context())
		returned, done := x.fly(Flight{Context: ctx, Blocks: true})
		x.Lock()
		require.False(t, x.attending)
		x.Unlock()
		cancel()
		<-returned
		x.answer(t)
		require.NoError(t, <-done)
	}
}

// mute is a socket to which nothing can be written.
type mute struct{ net.Conn }

func (mute) Write([]byte) (int, error) { return 0, errClosed }

func TestLineEndsWhenItCannotAsk(t *testing.T) {
	x := newLined(t)
	x.o.Socket = mute{x.socket}
	done := make(chan error, 1)
	x.Lock()
	x.Fly(Flight{Context: t.Context(), Done: func(err error) { done <- err }}, []byte("?"))
	require.ErrorIs(t, <-done, errClosed)
	require.ErrorIs(t, <-x.ends, errClosed)
}

// TestLineHearsOfItsEnd: while nobody asks, and while somebody does.
func TestLineHearsOfItsEnd(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		x := newLined(t)
		returned, done := x.fly(Flight{Context: t.Context(), Blocks: blocks})
		x.answer(t)
		<-returned
		require.NoError(t, <-done)
		require.NoError(t, x.server.Close())
		require.Error(t, <-x.ends)
	}

	x := newLined(t)
	returned, done := x.fly(Flight{Context: t.Context()})
	require.NoError(t, x.server.Close())
	require.Error(t, <-done)
	<-returned
	require.Error(t, <-x.ends)

	x = newLined(t)
	returned, done = x.fly(Flight{Context: t.Context(), Blocks: true})
	x.end(errClosed)
	require.ErrorIs(t, <-done, errClosed)
	<-returned

	x = newLined(t)
	ctx, cancel := context.WithCancel(t.Context())
	returned, done = x.fly(Flight{Context: ctx})
	cancel()
	<-returned
	x.end(errClosed)
	require.ErrorIs(t, <-done, errClosed, "of who has left")
}

// TestLineIsNotLeftAlone where something is expected to come unasked.
func TestLineIsNotLeftAlone(t *testing.T) {
	x := newLined(t)
	x.stays.Store(true)
	returned, done := x.fly(Flight{Context: t.Context()})
	x.answer(t)
	<-returned
	require.NoError(t, <-done)
	x.Lock()
	require.False(t, x.Take(), "the reader is there")
	x.Unlock()
}

func TestLineEndsWhenAnAnswerIsOverdue(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		x := newLined(t)
		returned, done := x.fly(Flight{Context: t.Context(), Patience: time.Minute, Blocks: blocks})
		x.Overdue()
		require.Empty(t, done)
		x.Lock()
		require.True(t, x.watching)
		x.Again(time.Now().Add(-time.Hour))
		x.Unlock()
		x.Overdue()
		require.ErrorContains(t, <-done, "the server has not answered for 1m0s")
		<-returned
	}
	x := newLined(t) // by itself
	_, done := x.fly(Flight{Context: t.Context(), Patience: 20 * time.Millisecond})
	require.ErrorContains(t, <-done, "the server has not answered for 20ms")
	x = newLined(t) // also where one that was answered in time went before
	returned, done := x.fly(Flight{Context: t.Context(), Patience: 50 * time.Millisecond})
	x.answer(t)
	<-returned
	require.NoError(t, <-done)
	_, done = x.fly(Flight{Context: t.Context(), Patience: 50 * time.Millisecond})
	require.ErrorContains(t, <-done, "the server has not answered for 50ms")
	x = newLined(t)
	returned, done = x.fly(Flight{Context: t.Context(), Blocks: true}) // as long as it takes
	x.Overdue()
	x.answer(t)
	<-returned
	require.NoError(t, <-done)
}
