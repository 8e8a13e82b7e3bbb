package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/go-zookeeper/zk"
)

// session is what the backend knows of the session that its connection has. The mutex of the backend guards it.
type session struct {
	id        int64     // 0: none
	opened    time.Time // it was opened after this; zero: not known
	confirmed time.Time // the leader has heard of it since then, at the least; zero: not known
	visits    []visit   // both times rise
}

// visit is a request of ours that was answered: the server that we are connected to was told, between these two, that the session lives.
type visit struct{ sent, answered time.Time }

// observe looks which session the connection has, if there is one. A new one was opened after the last look at an older one. b.mu is held.
func (b *Backend) observe() {
	if b.conn == nil {
		return
	}
	now := time.Now()
	if id := b.conn.SessionID(); id != b.session.id {
		b.session = session{id: id, opened: b.observed, confirmed: b.observed}
	}
	b.observed = now
}

// call makes a request on the connection. Its answer is evidence that the session lives, and proof if it took a quorum. The client library ignores
// contexts: call returns when that does, at the latest when it has found out that the server is silent and has tried all others. did and path say what
// the request did, for its error; see explain.
func call[T any](b *Backend, quorum bool, did, path string, request func(*zk.Conn) (T, error)) (answer T, err error) {
	b.mu.Lock()
	if b.conn == nil {
		b.mu.Unlock()
		return answer, unavailable(zk.ErrNoServer)
	}
	b.observe()
	conn, id, sent := b.conn, b.session.id, b.observed
	b.mu.Unlock()
	answer, err = request(conn)
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.conn == conn {
			b.observe()
			if s := &b.session; s.id == id && id != 0 {
				s.answered(visit{sent, b.observed}, quorum, b.tick, b.o.TTL)
			}
		}
	}
	return answer, explain(err, did, path)
}

// inTime calls f, which waits for the client library, and leaves it behind when ctx ends, with an error of class.
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
		return none, fmt.Errorf("%w: no answer yet: %w", class, ctx.Err())
	}
}

// answered notes that a request was answered, which took a quorum or did not.
//
// A server that is not the leader tells it of the sessions that it heard of when the leader asks, which it does twice a tick, and passes
// requests on in the order of those answers. So of whatever the server had answered a tick before a request was sent, the leader was told before
// that request came; if a quorum answers it, that was the leader indeed. That a request was written by then is not enough: it may have been on its
// way for as long, and have arrived together with the other. A session that moved to another connection meanwhile was shown to the leader by that.
func (s *session) answered(v visit, quorum bool, tick, keep time.Duration) {
	if quorum {
		if heard := s.latest(v.sent.Add(-tick)); heard.After(s.confirmed) {
			s.confirmed = heard
		}
	}
	if n := len(s.visits); n > 0 {
		last := s.visits[n-1]
		if v.sent.Sub(last.sent) < max(tick/4, keep/100) || v.answered.Before(last.answered) {
			return // it is close enough to the last, or was overtaken
		}
	}
	old := sort.Search(len(s.visits), func(i int) bool { return !s.visits[i].sent.Before(v.sent.Add(-keep)) })
	s.visits = append(s.visits[old:], v)
}

// latest returns when the latest visit that was answered by t was sent. Zero: there is none.
func (s *session) latest(t time.Time) time.Time {
	i := sort.Search(len(s.visits), func(i int) bool { return s.visits[i].answered.After(t) })
	if i == 0 {
		return time.Time{}
	}
	return s.visits[i-1].sent
}

// until is the instant before which the server cannot end the session. b.mu is held.
func (b *Backend) until() time.Time { return b.session.confirmed.Add(b.timeout()) }

// timeout is the session's.
func (b *Backend) timeout() time.Duration {
	if b.o.Log != nil {
		return b.o.Log.granted()
	}
	return b.o.TTL
}

// stale says that little of the session's validity is left.
func (b *Backend) stale() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Until(b.until()) < (b.timeout()-b.tick)/2
}

// confirm makes a quorum say whether the node is there, and so that this session lives and sees everything decided before. Unlike
// a sync, which the leader answers alone, it cannot be answered by one that was deposed and has not noticed.
func (b *Backend) confirm(path string) error {
	_, err := call(b, true, "check", path, func(c *zk.Conn) ([]zk.MultiResponse, error) {
		return c.Multi(&zk.CheckVersionRequest{Path: path, Version: -1})
	})
	return err
}

// freshen confirms the session. After a silence the first request shows the session to the server, and another a tick later proves that the
// leader knows.
func (b *Backend) freshen(ctx context.Context, path string) error {
	err := b.confirm(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) || !b.stale() {
		return err
	}
	b.mu.Lock()
	tick := b.tick
	b.mu.Unlock()
	timer := time.NewTimer(tick + tick/20)
	defer timer.Stop()
	select {
	case <-timer.C:
		return b.confirm(path)
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
}

// visit keeps the evidence that the session lives fresh, with a request for each third of its timeout in which there is no other, so that the next claim is worth most
// of it: go-zookeeper's own pings tell nobody when they were answered. It gives up a connection of our own that servers have turned away for too long.
func (b *Backend) visit() {
	timer := time.NewTimer(b.o.TTL / 3)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-b.done:
			return
		}
		b.mu.Lock()
		conn, wait := b.conn, b.o.TTL/3
		if n := len(b.session.visits); n > 0 {
			wait -= time.Since(b.session.visits[n-1].sent)
		}
		b.mu.Unlock()
		switch {
		case conn == nil:
		case conn.State() != zk.StateHasSession:
			b.giveUp()
		case wait <= b.o.TTL/30:
			_ = b.look()
			wait = b.o.TTL / 3
		}
		timer.Reset(max(wait, b.o.TTL/30))
	}
}

// look makes a request that costs little.
func (b *Backend) look() error {
	_, err := call(b, false, "read", b.root(), func(c *zk.Conn) (bool, error) {
		exists, _, err := c.Exists(b.root())
		return exists, err
	})
	return err
}
