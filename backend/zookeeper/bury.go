package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

// expire gives a session up that no server has let us attach for as long as its timeout. What it held is lost by then, and trying to
// attach it would keep it, and its nodes, alive.
func (l *life) expire(lost int) {
	l.mu.Lock()
	back := l.ready || l.losses != lost || l.over != nil
	l.mu.Unlock()
	if !back {
		l.end(unavailable(errors.New("no server has answered for as long as the session lives")))
	}
}

// bury makes sure that the session is gone at the server too: until then its nodes may be there, and what was sent may be carried out.
// It goes on until a server says so, or the backend is closed.
func (l *life) bury() {
	l.mu.Lock()
	session, password, granted := l.session, l.password, l.granted
	l.mu.Unlock()
	if session == 0 {
		close(l.buried)
		return
	}
	request := connectRequest(session, password, granted)
	servers := l.b.servers
	for try := 0; ; try++ {
		if closed, err := l.tryToBury(servers[try%len(servers)], request); err == nil && closed {
			close(l.buried)
			return
		}
		timer := time.NewTimer(pauseAfter((try + 1) / len(servers)))
		select {
		case <-timer.C:
		case <-l.b.ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (l *life) tryToBury(server string, request []byte) (closed bool, err error) {
	conn, err := l.b.dial(l.b.ctx, server, time.Second)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(l.b.ctx, func() { _ = conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(l.b.patience())); err != nil {
		return false, err
	}
	_, closed, err = openAndClose(conn, request)
	return closed, err
}

// gone waits until it is certain that the session of a life that has ended is gone, so that it creates nothing any more and its nodes
// are deleted.
func (l *life) gone(ctx context.Context) error {
	select {
	case <-l.buried:
		return nil
	case <-ctx.Done():
		return unknown(ctx.Err())
	case <-l.b.ctx.Done():
		return unknown(errClosed)
	}
}

// isGone is gone without waiting.
func (l *life) isGone() bool {
	select {
	case <-l.buried:
		return true
	default:
		return false
	}
}

// lostWith is the error of a lease whose life has ended.
func (l *life) lostWith() error {
	reason := l.ended()
	if !l.isGone() {
		return unknown(certainly{reason})
	}
	return lostError{reason}
}

// lostError is ErrLost for a reason that may be of another class.
type lostError struct{ reason error }

func (e lostError) Error() string { return driver.ErrLost.Error() + ": " + e.reason.Error() }

// Unwrap implements the class.
func (e lostError) Unwrap() error { return driver.ErrLost }
