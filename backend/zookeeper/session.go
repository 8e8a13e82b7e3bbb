package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// session is what is known of the connection's session. The backend's mutex guards it.
type session struct {
	id        int64      // 0: none
	confirmed time.Time  // the leader heard of it then, or later; zero: not known
	exchanges []exchange // both times rise
}

// exchange is an answered request: between these times, the connected server learned that the session lives.
type exchange struct{ sent, answered time.Time }

// observe reads which session the connection has, if any. A new session was opened after the last look that was not during a handshake: the server
// opens it before the connection has the answer. b.mu is held.
func (b *Backend) observe() {
	if b.conn == nil {
		return
	}
	now := time.Now()
	state := b.conn.State() // read before the id, which go-zookeeper sets first
	if id := b.conn.SessionID(); id != b.session.id {
		b.session = session{id: id, confirmed: b.observed}
	}
	if state != zk.StateConnected { // during a handshake, the server may have opened the next session already
		b.observed = now
	}
	if state != zk.StateDisconnected {
		b.down = time.Time{}
	}
}

// closed is the error of a caller's connection that is down and refuses a request: it is closed, or was lost twice in a row. It matches
// errSessionEnded if every look has found it down for twice the session's timeout and a tick. The servers have ended its session then, unless they
// were down or elected a leader again meanwhile: that starts the timeout anew. go-zookeeper sends nothing more.
func (b *Backend) closed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe()
	b.down = cmp.Or(b.down, time.Now())
	err := zk.ErrConnectionClosed
	if time.Since(b.down) > 2*(b.timeout()+b.tick) {
		err = errSessionEnded
	}
	return unavailable(fmt.Errorf("%w; if you closed the connection, make a new client on a new one", err))
}

// call sends a request on the connection. The answer is evidence that the session lives, and proof if it took a quorum. The client library
// ignores contexts: call returns when the library does, at the latest after the library found the server silent and tried all others.
// did and path describe the request in its error; see explain.
func call[T any](b *Backend, quorum bool, did, path string, request func(*zk.Conn) (T, error)) (answer T, err error) {
	b.mu.Lock()
	if b.conn == nil {
		b.mu.Unlock()
		return answer, unavailable(zk.ErrNoServer)
	}
	b.observe()
	conn, id, sent := b.conn, b.session.id, time.Now()
	if b.pending == 0 {
		b.heard = sent
	}
	b.pending++
	b.mu.Unlock()
	answer, err = request(conn)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending--
	b.heard = time.Now()
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		b.observe()
		if s := &b.session; s.id == id && id != 0 { // so b.conn is conn
			s.answered(exchange{sent, b.heard}, quorum, b.tick, b.o.TTL)
		}
	}
	return answer, explain(err, did, path)
}

// inTime calls f, which may block in the client library. If ctx ends first, it leaves f running, and returns an error of class.
func inTime[T any](ctx context.Context, class error, f func() (T, error)) (T, error) {
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := f()
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%w: no answer in time: %w", class, ctx.Err())
	}
}

// answered records an answered request, and whether it took a quorum.
//
// Twice a tick the leader asks each other server which sessions it has heard of. Servers forward requests in order with these reports. So
// what a server answered a tick before a request was sent, it reported to the leader before that request arrived. If a quorum answers
// the request, that was the real leader. A request that was only sent by then is not enough: it may have been delayed as long, and
// have arrived with the other. If the session moved to another connection meanwhile, the move showed it to the leader.
func (s *session) answered(v exchange, quorum bool, tick, keep time.Duration) {
	if quorum {
		if heard := s.latest(v.sent.Add(-tick)); heard.After(s.confirmed) {
			s.confirmed = heard
		}
	}
	if n := len(s.exchanges); n > 0 && v.sent.Sub(s.exchanges[n-1].sent) < max(tick/4, keep/100) {
		return // close enough to the last
	}
	s.exchanges = slices.DeleteFunc(s.exchanges, func(old exchange) bool { return old.sent.Before(v.sent.Add(-keep)) })
	s.exchanges = append(s.exchanges, v)
}

// latest returns when the last exchange that was answered by t was sent. Zero: none.
func (s *session) latest(t time.Time) time.Time {
	for _, v := range slices.Backward(s.exchanges) {
		if !v.answered.After(t) {
			return v.sent
		}
	}
	return time.Time{}
}

// until is the instant before which the server cannot end the session. b.mu is held.
func (b *Backend) until() time.Time { return b.session.confirmed.Add(b.timeout()) }

// timeout is the session timeout.
func (b *Backend) timeout() time.Duration {
	if b.o.Log != nil {
		return b.o.Log.granted()
	}
	return b.o.TTL
}

// stale reports that little of the session's validity is left.
func (b *Backend) stale() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Until(b.until()) < (b.timeout()-b.tick)/2
}

// confirm makes a quorum answer whether the node exists. So this session lives, and sees everything decided before. A deposed leader that
// has not noticed cannot answer it, but would answer a sync.
func (b *Backend) confirm(path string) error {
	_, err := call(b, true, "check", path, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		return c.Multi(&zk.CheckVersionRequest{Path: path, Version: -1})
	})
	return err
}

// freshen confirms the session. After a silence, the first request shows the session to the server. A second one, a tick later, proves
// that the leader knows.
func (b *Backend) freshen(ctx context.Context, path string) error {
	err := b.confirm(path)
	if err != nil || !b.stale() {
		return err
	}
	b.mu.Lock()
	tick := b.tick
	b.mu.Unlock()
	select {
	case <-time.After(tick + tick/20):
		return b.confirm(path)
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
}

// beat keeps the evidence that the session lives fresh: it sends a request if there was none for some time. A confirmation counts as of a request that
// was answered a tick before. That request and the tick together shall not be older than a third of the timeout, so that claims and renewals are valid
// for the rest. go-zookeeper's own pings do not reveal when they were answered. beat also leaves a server that is silent.
func (b *Backend) beat() {
	b.mu.Lock()
	conn, last, idle := b.conn, b.session.latest(time.Now()), b.pending == 0
	pause := max(b.timeout()*3/10-b.tick, b.tick/2)
	silent := !idle && time.Since(b.heard) > b.patience()
	leave := b.leave
	b.mu.Unlock()
	switch {
	case conn == nil:
	case conn.State() != zk.StateHasSession:
		b.giveUp()
	case silent && leave != nil:
		go leave() // TLS may wait
	case idle && time.Since(last) > pause:
		go func() { _ = b.ping() }()
	}
}

// ping sends a cheap request.
func (b *Backend) ping() error {
	_, err := call(b, false, "read", b.root(), func(c *zk.Conn) (bool, error) {
		exists, _, err := c.Exists(b.root())
		if errors.Is(err, zk.ErrNoAuth) { // an answer too, of newer servers
			err = nil
		}
		return exists, err
	})
	return err
}
