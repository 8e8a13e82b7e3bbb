package zookeeper

import (
	"encoding/binary"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Our own requests are numbered downwards from here, out of the way of go-zookeeper's, which ignores their replies.
const firstNumber = -1000

// crowd is how many bytes of requests may be unanswered before a caller no longer writes to the socket itself: its buffer takes
// those, so that the caller is not held up by a server that does not read.
const crowd = 8 << 10

// longest is the longest reply that is believed.
const longest = 64 << 20

// gulp is how much is read from the socket at once. go-zookeeper would read each packet in two pieces.
const gulp = 4 << 10

// tap is a connection to a server as go-zookeeper sees it, on which the driver makes requests of its own, whose replies go-zookeeper does
// not see. It opens and attaches the session, keeps it alive and sets its watches; but it ignores contexts, keeps requests for later connections, and tells neither
// the timeout that was granted, nor when the session was last touched, nor the transaction that created a node.
type tap struct {
	net.Conn
	life  *life
	dead  time.Time // when the handshake has to be over
	tick  time.Duration
	turns sync.Mutex // one packet is written at a time

	mu         sync.Mutex
	greeted    bool      // the handshake's request was written
	opened     time.Time // just before that
	shaken     bool      // the handshake's response was read
	closed     bool
	visits     ledger
	pings      []time.Time        // when those of go-zookeeper's that have no answer were written
	pending    map[int32]*pending // our own requests
	records    map[string]*record // by the path of the lock
	number     int32
	unanswered int
	waiting    []byte // packets to be written
	flushing   bool
	busy       int     // writes under way
	groups     []group // that wait until these are fewer
	auth       int32   // the number of go-zookeeper's authentication; 0: none under way

	// Of go-zookeeper's goroutine that reads.
	patience time.Duration // for the next packet; 0: any time
	buffer   []byte        // to read into
	theirs   []byte        // read, and for go-zookeeper
	given    int           // of theirs

	// Of the packet that is being read, by that goroutine.
	phase phase
	part  []byte // its length, then its head, then its body
	want  int    // of part
	size  int    // of the packet, after its length
	skip  int    // bytes of it that we do not want
	reply reply  // if it answers a request of our own
}

// phase is what of a packet is being read.
type phase int

const (
	readLength phase = iota
	readHead
	readBody
)

// reply is the head of a reply.
type reply struct {
	to   *pending // nil: to none of our own requests
	xid  int32
	zxid int64
	code int32
}

// pending is one of our own requests. Fields are final once done is closed.
type pending struct {
	op    int32
	size  int
	sent  time.Time // zero: it was not sent
	batch []group   // whose writes it carries
	watch string    // the path that it has watched; empty: none
	done  chan struct{}

	zxid int64
	body body
	err  error // connectionLost: the outcome is unknown, unless it was not sent
}

func newTap(conn net.Conn, l *life, tick, patience time.Duration) *tap {
	return &tap{
		Conn: conn, life: l, tick: tick, dead: time.Now().Add(patience), number: firstNumber,
		visits: ledger{grain: tick / 4}, pending: make(map[int32]*pending), records: make(map[string]*record), buffer: make([]byte, gulp), want: 4,
	}
}

// send writes requests together, in order. On a connection that is closed they fail at once, and were certainly not sent.
func (t *tap) send(frames ...frame) []*pending {
	g := group{frames, make([]*pending, len(frames))}
	all := make([]pending, len(frames))
	t.mu.Lock()
	for i, f := range frames {
		g.pending[i] = &all[i]
		all[i] = pending{op: f.op(), size: len(f), done: make(chan struct{})}
		if f.op() == opExists {
			g.pending[i].watch = f.path()
		}
		if t.closed {
			g.pending[i].err = zk.ErrConnectionClosed
			close(g.pending[i].done)
		}
	}
	switch {
	case t.closed:
	case isWrite(frames[0].op()) && (t.busy >= maxWrites || len(t.groups) > 0):
		t.groups = append(t.groups, g)
		t.next()
	default:
		t.put(g)
	}
	t.start()
	return g.pending
}

// put has a group written. t.mu is held.
func (t *tap) put(g group) {
	for i, f := range g.frames {
		t.putOne(f, g.pending[i])
	}
}

// putOne has a packet written. t.mu is held.
func (t *tap) putOne(f frame, p *pending) {
	p.sent = time.Now()
	t.number--
	if t.number == math.MinInt32 {
		t.number = firstNumber
	}
	f.number(t.number)
	t.pending[t.number] = p
	t.unanswered += p.size
	if needsQuorum(p.op) {
		t.busy++
	}
	t.waiting = append(t.waiting, f...)
}

// start writes what waits, if nobody does. It unlocks t.mu, which is held.
func (t *tap) start() {
	if t.flushing || t.closed || len(t.waiting) == 0 {
		t.mu.Unlock()
		return
	}
	t.flushing = true
	crowded := t.unanswered > crowd
	t.mu.Unlock()
	if crowded || t.flushOnce() {
		go t.flush()
	}
}

// flush writes what waits until there is nothing left.
func (t *tap) flush() {
	for t.flushOnce() {
	}
}

// flushOnce writes what waits. more: there is something to write again.
func (t *tap) flushOnce() (more bool) {
	t.mu.Lock()
	packets := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	if err := t.write(packets); err != nil {
		_ = t.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	more = len(t.waiting) > 0 && !t.closed
	t.flushing = more
	return more
}

// write writes packets.
func (t *tap) write(packets []byte) error {
	t.turns.Lock()
	defer t.turns.Unlock()
	_, err := t.Conn.Write(packets)
	return err
}

// Write passes a packet of go-zookeeper's on, which writes each with one call.
func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	greeting := !t.greeted
	if greeting {
		t.greeted, t.opened = true, time.Now()
	} else if len(p) >= 12 {
		switch int32(binary.BigEndian.Uint32(p[8:])) {
		case opAuth:
			t.auth = int32(binary.BigEndian.Uint32(p[4:]))
		case opPing:
			t.pings = append(t.pings, time.Now())
		}
	}
	t.mu.Unlock()
	if greeting {
		if len(p) >= 16 { // the last transaction seen: a server that is behind it does not attach us
			binary.BigEndian.PutUint64(p[8:], max(binary.BigEndian.Uint64(p[8:]), uint64(t.life.seen())))
		}
		return t.Conn.Write(p)
	}
	if err := t.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// SetWriteDeadline does nothing: it would strike our own writes too. A connection whose server does not read is closed by go-zookeeper,
// since it does not answer either.
func (t *tap) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline keeps the handshake to its bound, where go-zookeeper allows a server that says nothing several session timeouts.
func (t *tap) SetReadDeadline(d time.Time) error {
	t.patience = 0
	if t.opening() {
		d = t.dead
	} else if !d.IsZero() {
		t.patience = time.Until(d)
	}
	return t.Conn.SetReadDeadline(d)
}

// Close fails the requests under way.
func (t *tap) Close() error {
	t.fail()
	return t.Conn.Close()
}

func (t *tap) fail() {
	t.mu.Lock()
	all := t.pending
	for _, g := range t.groups { // these were not sent
		for _, p := range g.pending {
			p.err = zk.ErrConnectionClosed
			close(p.done)
		}
	}
	t.closed, t.pending, t.waiting, t.groups = true, nil, nil, nil
	for _, p := range all {
		p.err = zk.ErrConnectionClosed
		close(p.done)
		p.failBatch()
	}
	t.mu.Unlock()
	t.life.lost(t)
}
