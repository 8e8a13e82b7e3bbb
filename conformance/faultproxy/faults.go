package faultproxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// faults are the active faults. The zero value has none.
type faults struct {
	cut       bool
	frozen    bool
	blackhole bool
	delay     time.Duration
	traps     []*trap // in the order in which they were set
}

// trap waits for one request, acts on its connection, and is removed.
type trap struct {
	match func(request []byte) bool
	left  int // 1: acts on the next match; n: on the n-th request or a later one
	act   action
	fired func() // says that it has acted; further calls do nothing
}

// action is what a trap does with its request.
type action int

const (
	forward    action = iota // no trap: forward it
	cutAfter                 // forward it, hang up at once
	dropReply                // forward it, hang up on the reply
	severAfter               // the same, and cut everything afterwards
)

// Cut makes the server unreachable until Restore. It closes every live connection, and new ones as soon as they are accepted: a
// client sees its dial succeed and its first read fail. Bytes under way are lost.
func (p *Proxy) Cut() {
	p.locked(func() { p.faults.cut = true; p.killAll(nil) })
}

// KillConns closes the live connections once. New ones work.
func (p *Proxy) KillConns() { p.locked(func() { p.killAll(nil) }) }

// Freeze makes every connection half-open, open ones included, until Restore or DropHeld. Connections are accepted and stay open.
// All bytes, and closes by either peer, are held in both directions. Nothing is lost; a peer that keeps sending blocks when its
// buffers are full.
func (p *Proxy) Freeze() { p.locked(func() { p.faults.frozen = true }) }

// Restore ends every fault. Held bytes flow on, in order, save those that BlackholeReplies held. DropReply, CutAfter and
// SeverAfter that still wait for a request are canceled; their channels stay open.
func (p *Proxy) Restore() {
	p.locked(func() {
		for c := range p.conns {
			if c.silenced {
				c.kill()
			}
		}
		p.faults = faults{}
		p.changed.Broadcast()
	})
}

// DropHeld is Restore, but closes every live connection and drops the bytes that it held.
func (p *Proxy) DropHeld() {
	p.KillConns()
	p.Restore()
}

// BlackholeReplies lets requests reach the server, and hides its replies, and that it closes a connection, until Restore. Restore
// closes the connections of which it hid something.
func (p *Proxy) BlackholeReplies() { p.locked(func() { p.faults.blackhole = true }) }

// Delay delivers every chunk, in both directions, d after it came in. Chunks follow each other as on a long wire, so a round trip
// takes 2d even if others are under way. It lasts until Restore or Delay(0); chunks already under way keep their delay. Opening
// a connection is not delayed.
func (p *Proxy) Delay(d time.Duration) { p.locked(func() { p.faults.delay = max(d, 0) }) }

// DropReply forwards the next request that satisfies match (nil: the very next), and drops everything that the server sends on
// that connection from then on. It closes the client's side when the server's first byte has come or the server has closed. It
// closes the server's side 200 ms after the server's last byte, at most 2 s later: a server that sees the end of the stream may
// drop a request that it has not begun, and its first bytes need not be the reply. It happens once; the channel is closed when
// the server's side is. match must not block, call the proxy or keep its argument.
func (p *Proxy) DropReply(match func(request []byte) bool) <-chan struct{} {
	return Group{p}.trap(1, dropReply, match)
}

// CutAfter lets n more requests (at least 1) through, on all connections together. When the last of them has been forwarded, it
// closes that connection before the reply is delivered. It happens once; the channel is closed when it has. The server gets the
// whole request and then an end of file. Whether it carries the request out depends on the server; Redis does.
func (p *Proxy) CutAfter(n int) <-chan struct{} {
	return Group{p}.trap(n, cutAfter, nil)
}

// SeverAfter lets n more requests (at least 1) through, on all connections together, and then acts as Cut. It closes the
// connection of the last request as DropReply does: the server has carried that request out, its reply is not delivered, and
// nothing else gets through. The channel is closed then.
func (p *Proxy) SeverAfter(n int) <-chan struct{} {
	return Group{p}.trap(n, severAfter, nil)
}

// trap sets a trap at every proxy. The channel is closed when all have acted.
func (all Group) trap(left int, act action, match func(request []byte) bool) <-chan struct{} {
	done := make(chan struct{})
	var waiting atomic.Int64
	waiting.Store(int64(len(all)))
	all.Each(func(p *Proxy) {
		t := &trap{match: match, left: max(left, 1), act: act, fired: sync.OnceFunc(func() {
			if waiting.Add(-1) == 0 {
				close(done)
			}
		})}
		p.locked(func() { p.faults.traps = append(p.faults.traps, t) })
	})
	return done
}

// spring returns the trap that request springs, or nil. If several are due, the one set first takes the request, and the others
// wait on. CutAfter and SeverAfter count it. p.mu is held.
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
