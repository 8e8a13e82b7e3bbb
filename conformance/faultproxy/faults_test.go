package faultproxy

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func containing(text string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(text)) }
}

func TestFreeze(t *testing.T) {
	p, s := setUp(t)
	old, leaves, dropped := dial(t, p), dial(t, p), dial(t, p)
	old.call("before")
	leaves.call("before")
	p.Freeze()
	old.send("held 1")
	leaves.send("parting")
	require.NoError(t, leaves.Close())
	fresh := dial(t, p)
	fresh.send("held 2")
	old.wantSilence()
	fresh.wantSilence()
	require.False(t, s.saw("held 1") || s.saw("held 2") || s.saw("parting"))
	wantConns(t, p, 4)
	before := p.Requests()
	old.send("held 3")
	eventually(t, func() bool { return p.Requests() > before })
	p.Restore()
	old.wantReplies("held 1", "held 3")
	fresh.wantReplies("held 2")
	old.call("after")
	s.sees("parting")
	wantConns(t, p, 3)

	dropped.call("before")
	p.Freeze()
	before = p.Requests()
	dropped.send("dropped")
	eventually(t, func() bool { return p.Requests() > before })
	p.DropHeld()
	dropped.wantClosed()
	dial(t, p).call("after")
	require.False(t, s.saw("dropped"))
}

func TestBlackholeReplies(t *testing.T) {
	p, s := setUp(t)
	robbed, spared, leaves := dial(t, p), dial(t, p), dial(t, p)
	spared.call("before")
	p.BlackholeReplies()
	leaves.send("unanswered, and alone")
	s.sees("unanswered, and alone")
	require.NoError(t, leaves.Close())
	eventually(t, func() (letGo bool) { // the closed connection is dropped
		p.locked(func() { letGo = len(p.conns) == 2 })
		return letGo
	})
	robbed.send("unanswered")
	s.sees("unanswered")
	eventually(t, func() (robbed bool) { // replies after Restore are delivered
		p.locked(func() {
			for c := range p.conns {
				robbed = robbed || c.silenced
			}
		})
		return robbed
	})
	robbed.wantSilence()
	robbed.send("bye") // the server closes, which is hidden too
	s.sees("bye")
	robbed.wantSilence()
	p.Restore()
	robbed.wantClosed()
	spared.call("after")
}

// Each trap hits one request, which reaches the server and gets no reply. Other connections go on, except after SeverAfter.
func TestTraps(t *testing.T) {
	for name, tt := range map[string]struct {
		set         func(*Proxy) <-chan struct{}
		hits        string
		gone, waits bool // it refuses connections afterwards; it waits for the reply
	}{
		"DropReply":  {func(p *Proxy) <-chan struct{} { return p.DropReply(containing("hit")) }, "hit", false, true},
		"by closing": {func(p *Proxy) <-chan struct{} { return p.DropReply(containing("bye")) }, "bye", false, true},
		"CutAfter":   {func(p *Proxy) <-chan struct{} { return p.CutAfter(3) }, "third", false, false},
		"SeverAfter": {func(p *Proxy) <-chan struct{} { return p.SeverAfter(3) }, "third", true, true},
		"closed":     {func(p *Proxy) <-chan struct{} { return p.SeverAfter(3) }, "bye", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := setUp(t)
			c, other := dial(t, p), dial(t, p)
			fired := tt.set(p)
			c.call("one")
			other.call("two")
			require.False(t, isClosed(fired))
			c.send(tt.hits)
			c.wantClosed()
			wantFired(t, fired)
			if tt.waits {
				require.True(t, s.saw(tt.hits), "the server must have received the request")
			}
			s.sees(tt.hits)
			if tt.gone {
				other.wantClosed()
				dial(t, p).wantClosed()
				p.Restore()
				wantConns(t, p, 0)
			} else {
				other.call(tt.hits + ", but once is enough")
			}
			dial(t, p).call("after")
		})
	}
}

// The server's first bytes are not the reply, as in HTTP/2. It carries the request out later, unless the stream has ended by then.
func TestDroppedReplyIsNotTheFirst(t *testing.T) {
	for name, every := range map[string]time.Duration{"one noise": time.Hour, "noise for ever": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, carriedOut := listen(t), make(chan struct{})
			go noisy(listener, every, carriedOut)
			p := before(t, listener.Addr())
			dropped, c := p.DropReply(nil), dial(t, p)
			c.send("hit")
			c.wantClosed()
			wantFired(t, dropped)
			require.True(t, isClosed(carriedOut))
		})
	}
}

// noisy serves one request. It sends noise at once and after each interval, and carries the request out later unless the stream ends.
func noisy(listener net.Listener, every time.Duration, carriedOut chan<- struct{}) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Read(make([]byte, 10))
	ended := make(chan struct{})
	go func() { _, _ = conn.Read(make([]byte, 10)); close(ended) }()
	for act := time.After(calmTime / 2); ; {
		_, _ = fmt.Fprintln(conn, "noise")
		select {
		case <-act:
			close(carriedOut)
		case <-ended:
			return
		case <-time.After(every):
		}
	}
}

// A reply is dropped even if the client does not await it, or the server has closed unheard and sends none.
func TestDroppedReplyThatNobodyHears(t *testing.T) {
	p, s := setUp(t)
	dropped, c := p.DropReply(nil), dial(t, p)
	c.send("gone")
	require.NoError(t, c.Close())
	wantFired(t, dropped)
	s.sees("gone")
	wantConns(t, p, 0)

	p.BlackholeReplies()
	c = dial(t, p)
	c.send("bye")
	s.sees("bye")
	c.wantSilence()
	dropped = p.DropReply(nil)
	c.send("anybody there?")
	c.wantClosed()
	wantFired(t, dropped)
}

func TestTrapsTakeTurns(t *testing.T) {
	p, s := setUp(t)
	first, second := p.DropReply(nil), p.DropReply(nil)
	for i, fired := range []<-chan struct{}{first, second} {
		require.False(t, isClosed(second))
		c, line := dial(t, p), fmt.Sprint("request ", i)
		c.send(line)
		wantFired(t, fired)
		c.wantClosed()
		require.True(t, s.saw(line))
	}
}

func TestRestoreCallsOffTraps(t *testing.T) {
	p, _ := setUp(t)
	traps := []<-chan struct{}{p.DropReply(nil), p.CutAfter(1), p.SeverAfter(1)}
	p.Restore()
	dial(t, p).call("unharmed")
	for _, fired := range traps {
		require.False(t, isClosed(fired))
	}
}

func TestFaultsWhileBusy(t *testing.T) {
	p, _ := setUp(t)
	var busy sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		busy.Go(func() {
			for !isClosed(stop) {
				chatter(p)
			}
		})
	}
	defer func() {
		close(stop)
		require.NoError(t, p.Close())
		busy.Wait()
	}()
	for range 20 {
		before := p.Requests()
		for _, fault := range []func(){
			p.Cut, p.Restore, p.Freeze, p.KillConns, p.BlackholeReplies, p.DropHeld,
			func() { p.DropReply(nil) }, func() { p.CutAfter(2) }, func() { p.Delay(time.Millisecond) }, p.Restore,
		} {
			fault()
		}
		eventually(t, func() bool { return p.Requests() > before })
	}
}
