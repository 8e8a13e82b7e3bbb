package faultproxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// faults is what is broken at the moment. The zero value: nothing.
type faults struct {
	cut       bool
	frozen    bool
	blackhole bool
	delay     time.Duration
	traps     []*trap // in the order in which they were set
}

// trap waits for one request, acts on its connection, and is gone.
type trap struct {
	match func(request []byte) bool
	left  int // 1: acts on the next request that matches; more: so many must come first
	act   action
	fired sync.Once
	event *event
}

// event is what one trap, or the traps of several proxies, bring about.
type event struct {
	left atomic.Int64 // traps that have not fired yet
	done chan struct{}
}

func newEvent(traps int) *event {
	e := &event{done: make(chan struct{})}
	e.left.Store(int64(traps))
	return e
}

// action is what a trap does with the request it waited for.
type action int

const (
	forward    action = iota // no trap: as if the proxy were not there
	cutAfter                 // forward it, hang up at once
	dropReply                // forward it, hang up on what comes then
	severAfter               // the same, and be gone from then on
)

// Cut makes the server gone: it closes every live connection now, and new ones as soon as they are accepted (a client
// sees its dial succeed and its first read fail), until Restore. Bytes under way are lost.
func (p *Proxy) Cut() {
	p.locked(func() { p.faults.cut = true; p.killAll(nil) })
}

// KillConns closes the live connections once. New ones are welcome.
func (p *Proxy) KillConns() { p.locked(func() { p.killAll(nil) }) }

// Freeze makes every connection half-open, those already open included, until Restore or DropHeld: connections are
// accepted and stay open, and every byte, and every close by a peer, is held in both directions. Nothing is lost; a peer that keeps
// sending is stopped by its full buffer in the end.
func (p *Proxy) Freeze() { p.locked(func() { p.faults.frozen = true }) }

// Restore ends every fault: held bytes flow on, in order; connections that lost replies to BlackholeReplies are closed, since
// their streams are out of step; a DropReply, CutAfter or SeverAfter still waiting for its request is called off, and its
// channel stays open.
func (p *Proxy) Restore() {
	p.locked(func() {
		for c := range p.conns {
			if c.robbed {
				c.kill()
			}
		}
		p.faults = faults{}
		p.signal()
	})
}

// DropHeld is Restore, save that every live connection is closed and what was held on it is lost.
func (p *Proxy) DropHeld() {
	p.KillConns()
	p.Restore()
}

// BlackholeReplies lets requests reach the server and swallows what it answers, its closing of the connection included,
// until Restore, which closes the connections that lost something.
func (p *Proxy) BlackholeReplies() { p.locked(func() { p.faults.blackhole = true }) }

// Delay delivers every chunk, in both directions, d after it came in; chunks follow each other as on a long wire, so
// a round trip takes 2d whatever else is under way. It lasts until Restore or Delay(0); chunks already under way keep their
// delay. Opening a connection is not delayed.
func (p *Proxy) Delay(d time.Duration) { p.locked(func() { p.faults.delay = max(d, 0) }) }

// DropReply forwards the next request that satisfies match (nil: the very next), swallows everything that the server sends
// on that connection from then on, and closes the client's side when the first of it has come or the server has closed. It closes the server's
// side 200 ms after the server's last byte, at most 2 s later, since a server that sees the end of the stream may drop what it has not begun, and
// its first bytes need not be the reply. It happens once; the channel is closed when the server's side is.
// match must not block, call the proxy or keep its argument.
func (p *Proxy) DropReply(match func(request []byte) bool) <-chan struct{} {
	return p.set(&trap{match: match, left: 1, act: dropReply})
}

// CutAfter lets n more requests (at least 1) through, on all connections together, and closes the connection of the last of them
// when that has been forwarded, before its reply is delivered. It happens once; the channel is closed when it has.
// The server gets the whole request and then an end of file: what it makes of it is its own affair, Redis carries it out.
func (p *Proxy) CutAfter(n int) <-chan struct{} {
	return p.set(&trap{left: max(n, 1), act: cutAfter})
}

// SeverAfter lets n more requests (at least 1) through, on all connections together, and is then as after Cut, except that the connection of the last
// of them is closed as by DropReply: the server has carried that request out, the reply is not delivered, and nothing else gets through, whatever
// the client tries next. The channel is closed then.
func (p *Proxy) SeverAfter(n int) <-chan struct{} {
	return p.set(&trap{left: max(n, 1), act: severAfter})
}

// set sets a trap whose event is its own, unless it has one.
func (p *Proxy) set(t *trap) <-chan struct{} {
	if t.event == nil {
		t.event = newEvent(1)
	}
	p.locked(func() { p.faults.traps = append(p.faults.traps, t) })
	return t.event.done
}

// spring returns the trap that request, about to be forwarded, falls into, or nil. If several are due, the one set first takes
// it, and the others wait on. CutAfter and SeverAfter count it. Called with Proxy.mu held.
func (f *faults) spring(request []byte) *trap {
	var due *trap
	isDue := func(t *trap) bool { return t.left == 1 && (t.match == nil || t.match(request)) }
	if i := slices.IndexFunc(f.traps, isDue); i >= 0 {
		due = f.traps[i]
		f.traps = slices.Delete(f.traps, i, i+1)
	}
	for _, t := range f.traps {
		t.left = max(t.left-1, 1)
	}
	return due
}
