package zookeeper

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	g := ledger{grain: 10 * time.Millisecond}
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	require.Zero(t, g.latest(at(1000)))
	for _, ms := range []int{0, 4, 9, 10, 15, 33, 100} {
		g.add(visit{at(ms), at(ms + 5)})
	}
	require.Zero(t, g.latest(at(4)), "what was sent at 0 was not answered by then")
	require.Equal(t, at(0), g.latest(at(14)), "of close ones the earlier counts")
	require.Equal(t, at(10), g.latest(at(37)))
	require.Equal(t, at(33), g.latest(at(38)))
	require.Equal(t, at(100), g.latest(at(5000)))
	for ms := 200; ms < 200_000; ms++ {
		g.add(visit{at(ms), at(ms + 5)})
		g.forget(at(ms - 1000))
	}
	require.Less(t, len(g.visits), 200)
}

// quietLife is a life without go-zookeeper, whose connection a test answers.
func quietLife(tick time.Duration) (*tap, net.Conn) {
	b, _ := NewBackend([]string{"nowhere"}, Options{TTL: 10 * time.Second})
	l := &life{b: b, news: make(chan struct{}), buried: make(chan struct{}), watches: map[string]*watch{}, held: map[*claim]struct{}{}}
	ours, theirs := net.Pipe()
	t := newTap(ours, l, tick, time.Minute)
	l.tap = t
	return t, theirs
}

func response(xid int32, zxid int64, code int32, body []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	p = binary.BigEndian.AppendUint32(p, uint32(xid))
	p = binary.BigEndian.AppendUint64(p, uint64(zxid))
	p = binary.BigEndian.AppendUint32(p, uint32(code))
	return append(p, body...)
}

// A stream is understood however it is cut into pieces.
func TestTapListens(t *testing.T) {
	t.Parallel()
	greeting := binary.BigEndian.AppendUint32(nil, 4+4+8+4+16+1)
	greeting = binary.BigEndian.AppendUint32(greeting, 0)
	greeting = binary.BigEndian.AppendUint32(greeting, 8000)
	greeting = binary.BigEndian.AppendUint64(greeting, 0x77)
	greeting = binary.BigEndian.AppendUint32(greeting, 16)
	greeting = append(greeting, "0123456789abcdef\x00"...)
	list := frame{}.int(2).string("a").string("bc")
	var stream []byte
	stream = append(stream, greeting...)
	stream = append(stream, response(-2, 5, 0, nil)...)                 // a ping
	stream = append(stream, response(-1, -1, 0, []byte("an event"))...) // of a watch
	stream = append(stream, response(firstNumber-1, 6, 0, list)...)
	stream = append(stream, response(firstNumber-2, 7, codeNoNode, nil)...)
	stream = append(stream, response(12, 8, 0, []byte("go-zookeeper's own"))...)
	stream = append(stream, response(firstNumber-3, 9, 0, nil)...)
	for piece := 1; piece < 60; piece++ {
		tap, server := quietLife(time.Second)
		go func() { _, _ = io.Copy(io.Discard, server) }()
		tap.greeted, tap.opened = true, time.Now()
		p := []*pending{tap.send(listFrame("/x"))[0], tap.send(deleteFrame("/y"))[0], tap.send(deleteFrame("/z"))[0]}
		for left := stream; len(left) > 0; {
			n := min(piece, len(left))
			tap.listen(left[:n])
			left = left[n:]
		}
		for _, p := range p {
			<-p.done
		}
		children, err := p[0].children()
		require.NoError(t, err)
		require.Equal(t, []string{"a", "bc"}, children)
		require.ErrorIs(t, p[1].err, zk.ErrNoNode)
		require.NoError(t, p[2].err)
		require.Equal(t, int64(0x77), tap.life.session)
		require.Equal(t, []byte("0123456789abcdef"), tap.life.password)
		require.Equal(t, 8*time.Second, tap.life.granted)
		require.Equal(t, int64(9), tap.life.seen())
		require.Empty(t, tap.pending)
		require.NoError(t, tap.Close())
		_ = server.Close()
	}
}

// What confirms a session is what was answered a tick before a request that a quorum has answered, or the attachment.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	const tick = time.Second
	tap, server := quietLife(tick)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	defer func() { _ = tap.Close() }()
	zero := time.Now().Add(-time.Minute)
	at := func(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }
	tap.opened = at(0)
	require.Equal(t, at(0), tap.confirms(at(0.5)))
	tap.visits.add(visit{at(1), at(1.5)})
	tap.visits.add(visit{at(2), at(30)}) // a second that took long: it may have come to the server at any time
	require.Equal(t, at(0), tap.confirms(at(2.4)))
	require.Equal(t, at(1), tap.confirms(at(2.5)))
	require.Equal(t, at(1), tap.confirms(at(30.9)), "it was sent long before, but perhaps it arrived together with the request")
	require.Equal(t, at(2), tap.confirms(at(31)))
	// go-zookeeper's pings count too, from when they were written, once they are answered.
	ping := frame{}
	ping = binary.BigEndian.AppendUint32(ping, 8)
	ping = binary.BigEndian.AppendUint32(ping, 0xfffffffe)
	ping = binary.BigEndian.AppendUint32(ping, opPing)
	tap.shaken, tap.greeted = true, true
	before := time.Now()
	_, err := tap.Write(ping)
	require.NoError(t, err)
	far := before.Add(time.Hour)
	require.Equal(t, at(2), tap.confirms(far))
	tap.listen(response(pingNumber, 1, 0, nil))
	require.False(t, tap.confirms(far).Before(before))
	tap.visits.visits = []visit{{at(2), at(30)}}
	// Only what needs a quorum confirms.
	answer := func(f frame, code int32) time.Time {
		tap.life.confirmed = time.Time{}
		p := tap.send(f)[0]
		tap.listen(response(tap.number, 1, code, nil))
		<-p.done
		return tap.life.confirmed
	}
	for _, f := range []frame{listFrame("/"), getFrame("/"), syncFrame("/")} {
		require.Zero(t, answer(f, codeOK))
	}
	tap.listen(response(-2, 1, 0, nil))
	require.Zero(t, tap.life.confirmed)
	for _, f := range []frame{checkFrame("/"), deleteFrame("/"), createFrame(opCreate, "/", "", nil, 0)} {
		require.Equal(t, at(2), answer(f, codeOK))
		require.Zero(t, answer(f, -4), "a server that is in doubt says so by itself")
	}
	require.Equal(t, at(2), answer(deleteFrame("/"), codeNoNode))
}

// Requests on a connection that is closed fail, and it is known which were not sent.
func TestTapCloses(t *testing.T) {
	t.Parallel()
	tap, server := quietLife(time.Second)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	var all []*pending
	for i := range maxWrites + 3 {
		all = append(all, tap.send(deleteFrame(fmt.Sprint("/", i)))...)
	}
	require.NoError(t, tap.Close())
	all = append(all, tap.send(deleteFrame("/late"))...)
	for i, p := range all {
		<-p.done
		require.ErrorIs(t, p.err, zk.ErrConnectionClosed)
		require.Equal(t, i >= maxWrites, p.sent.IsZero())
	}
}

// Many claims at once go in a few transactions; a missing parent, or a node that is gone, spoils none but its own; nodes of one lock have
// transactions of their own.
func TestBatches(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	raw := newRaw(t, s.Addr())
	b := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr())
	const n = 100
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for range 3 {
				lease, err := try(b, request(b, fmt.Sprintf("%s-%d", t.Name(), i)))
				if err != nil {
					t.Error(err)
					return
				}
				if i%10 == 0 {
					_ = raw.Delete(lease.(*claim).node(), -1)
				}
				if err := lease.Release(t.Context()); (err != nil) != (i%10 == 0) {
					t.Error(i, err)
				}
			}
		})
	}
	running.Wait()
	for range n {
		running.Go(func() {
			req := request(b, t.Name())
			req.Queue = true
			_, _ = try(b, req)
		})
	}
	running.Wait()
	children, _, err := raw.Children("/" + t.Name())
	require.NoError(t, err)
	require.Equal(t, n, len(children), "each claim has one node")
	inOrder(children)
	var last int64
	for _, child := range children {
		_, stat, err := raw.Exists("/" + t.Name() + "/" + child)
		require.NoError(t, err)
		require.Greater(t, stat.Czxid, last, "tokens rise in the order of the queue")
		last = stat.Czxid
	}
}

// An answered ping says that the server was visited after that ping was written, whatever was written since.
func TestPingsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	tap, server := quietLife(time.Second)
	defer func() { _ = server.Close() }()
	tap.greeted, tap.shaken = true, true
	zero := time.Now().Add(-time.Minute)
	at := func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	tap.pings = []time.Time{at(1), at(2)}
	for s := 1; s <= 2; s++ {
		tap.listen(response(pingNumber, 1, codeOK, nil))
		require.Equal(t, at(s), tap.confirms(time.Now().Add(time.Hour)))
	}
	require.Empty(t, tap.pings)
}

// What a connection remembers does not grow with its age.
func TestVisitsAreForgotten(t *testing.T) {
	t.Parallel()
	tap, server := quietLife(time.Second)
	defer func() { _ = server.Close() }()
	zero := time.Now()
	for s := range 10_000 {
		tap.visited(zero.Add(time.Duration(s)*time.Second), 10*time.Second)
	}
	require.Less(t, len(tap.visits.visits), 200)
}
