package faultproxy

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func containing(text string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(text)) }
}

func TestCut(t *testing.T) {
	p, s := setUp(t)
	c := dial(t, p)
	c.call("before")
	p.Cut()
	require.Zero(t, p.Conns())
	c.wantClosed()
	dial(t, p).wantClosed()
	require.False(t, s.saw("lost")())
	p.Restore()
	dial(t, p).call("after")
}

func TestKillConns(t *testing.T) {
	p, _ := setUp(t)
	c := dial(t, p)
	c.call("before")
	p.KillConns()
	c.wantClosed()
	dial(t, p).call("after")
}

func TestFreezeHoldsEverything(t *testing.T) {
	p, s := setUp(t)
	old := dial(t, p)
	old.call("before")
	p.Freeze()
	old.send("held 1")
	fresh := dial(t, p)
	fresh.send("held 2")
	old.wantSilence()
	fresh.wantSilence()
	require.False(t, s.saw("held 1")())
	require.False(t, s.saw("held 2")())
	eventually(t, func() bool { return p.Conns() == 2 })
	old.send("held 3")
	p.Restore()
	old.wantReply("held 1")
	old.wantReply("held 3")
	fresh.wantReply("held 2")
	old.call("after")
}

func TestFreezeHoldsCloses(t *testing.T) {
	p, s := setUp(t)
	c := dial(t, p)
	c.call("before")
	p.Freeze()
	c.send("parting")
	require.NoError(t, c.Close())
	eventually(t, func() bool { return p.Requests() == 2 })
	require.Equal(t, 1, p.Conns())
	p.Restore()
	eventually(t, s.saw("parting"))
	eventually(t, func() bool { return p.Conns() == 0 })
}

func TestDropHeld(t *testing.T) {
	p, s := setUp(t)
	c := dial(t, p)
	c.call("before")
	p.Freeze()
	c.send("held")
	eventually(t, func() bool { return p.Requests() == 2 })
	p.DropHeld()
	c.wantClosed()
	dial(t, p).call("after")
	require.False(t, s.saw("held")())
}

func TestBlackholeReplies(t *testing.T) {
	p, s := setUp(t)
	robbed, spared := dial(t, p), dial(t, p)
	spared.call("before")
	p.BlackholeReplies()
	robbed.send("unanswered")
	eventually(t, s.saw("unanswered"))
	eventually(t, robbedOne(p))
	robbed.wantSilence()
	robbed.send("bye") // the server closes: not heard either
	eventually(t, s.saw("bye"))
	robbed.wantSilence()
	p.Restore()
	robbed.wantClosed()
	spared.call("after")
}

// robbedOne says whether the black hole has swallowed something: what comes later than Restore is delivered.
func robbedOne(p *Proxy) func() bool {
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.conns {
			if c.robbed {
				return true
			}
		}
		return false
	}
}

func TestBlackholeLetsDeadConnectionsGo(t *testing.T) {
	p, s := setUp(t)
	p.BlackholeReplies()
	c := dial(t, p)
	c.send("unanswered")
	eventually(t, s.saw("unanswered"))
	require.NoError(t, c.Close())
	eventually(t, func() bool { return p.Conns() == 0 })
}

func TestDelay(t *testing.T) {
	const delay = 30 * time.Millisecond
	p, _ := setUp(t)
	c := dial(t, p)
	c.call("quick")
	p.Delay(delay)
	start := time.Now()
	c.call("slow")
	require.GreaterOrEqual(t, time.Since(start), 2*delay)
	c.send("in")
	c.send("order")
	c.wantReply("in")
	c.wantReply("order")
	p.Restore()
	c.call("quick again")
}

func TestDropReply(t *testing.T) {
	p, s := setUp(t)
	c, other := dial(t, p), dial(t, p)
	dropped := p.DropReply(containing("this"))
	c.call("that")
	other.call("and that")
	wantNotFired(t, dropped)
	c.send("this")
	c.wantClosed()
	wantFired(t, dropped)
	require.True(t, s.saw("this")())
	other.call("this again, but once is enough")
}

func TestDropReplyWhenTheServerCloses(t *testing.T) {
	p, s := setUp(t)
	c := dial(t, p)
	dropped := p.DropReply(nil)
	c.send("bye")
	c.wantClosed()
	wantFired(t, dropped)
	require.True(t, s.saw("bye")())
}

func TestDropReplyWhenTheClientCloses(t *testing.T) {
	p, s := setUp(t)
	dropped := p.DropReply(nil)
	c := dial(t, p)
	c.send("gone")
	require.NoError(t, c.Close())
	wantFired(t, dropped)
	eventually(t, s.saw("gone"))
	eventually(t, func() bool { return p.Conns() == 0 })
}

func TestDropReplyWhenTheServerHasClosedUnheard(t *testing.T) {
	p, s := setUp(t)
	p.BlackholeReplies()
	c := dial(t, p)
	c.send("bye")
	eventually(t, s.saw("bye"))
	c.wantSilence()
	dropped := p.DropReply(nil)
	c.send("anybody there?")
	c.wantClosed()
	wantFired(t, dropped)
}

func TestCutAfter(t *testing.T) {
	p, s := setUp(t)
	a, b := dial(t, p), dial(t, p)
	cut := p.CutAfter(3)
	a.call("1")
	b.call("2")
	wantNotFired(t, cut)
	b.send("3")
	b.wantClosed()
	wantFired(t, cut)
	eventually(t, s.saw("3"))
	a.call("4")
	dial(t, p).call("5")
}

func TestSeverAfter(t *testing.T) {
	p, s := setUp(t)
	a, b := dial(t, p), dial(t, p)
	severed := p.SeverAfter(2)
	a.call("1")
	wantNotFired(t, severed)
	b.send("2")
	b.wantClosed()
	wantFired(t, severed)
	a.wantClosed()
	dial(t, p).wantClosed()
	require.True(t, s.saw("2")(), "the server has answered what it has not seen")
	p.Restore()
	dial(t, p).call("3")
}

func TestSeverAfterTheServerClosed(t *testing.T) {
	p, s := setUp(t)
	severed := p.SeverAfter(1)
	c := dial(t, p)
	c.send("bye")
	c.wantClosed()
	wantFired(t, severed)
	require.True(t, s.saw("bye")())
	eventually(t, func() bool { return p.Conns() == 0 })
}

func TestTrapsTakeTurns(t *testing.T) {
	p, s := setUp(t)
	first, second := p.DropReply(nil), p.DropReply(nil)
	a := dial(t, p)
	a.send("one")
	wantFired(t, first)
	wantNotFired(t, second)
	a.wantClosed()
	b := dial(t, p)
	b.send("two")
	wantFired(t, second)
	b.wantClosed()
	require.True(t, s.saw("one")())
	require.True(t, s.saw("two")())
}

func TestRestoreCallsOffTraps(t *testing.T) {
	p, _ := setUp(t)
	dropped, after, severed := p.DropReply(nil), p.CutAfter(1), p.SeverAfter(1)
	p.Restore()
	dial(t, p).call("unharmed")
	wantNotFired(t, dropped)
	wantNotFired(t, after)
	wantNotFired(t, severed)
}

func TestFaultsWhileBusy(t *testing.T) {
	p, _ := setUp(t)
	var busy sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					chatter(p)
				}
			}
		})
	}
	defer func() {
		close(stop)
		require.NoError(t, p.Close())
		busy.Wait()
	}()
	faults := []func(){
		p.Cut, p.Restore, p.Freeze, p.KillConns, p.BlackholeReplies, p.DropHeld,
		func() { p.DropReply(nil) }, func() { p.CutAfter(2) }, func() { p.Delay(time.Millisecond) },
	}
	for range 20 {
		before := p.Requests()
		for _, fault := range faults {
			fault()
		}
		p.Restore()
		eventually(t, func() bool { return p.Requests() > before })
	}
}
