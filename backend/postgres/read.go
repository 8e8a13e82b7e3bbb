package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/internal/session"
)

// aloneTime is for how long nobody reads from the socket after an answer: whoever asks meanwhile reads the answer himself, which saves two switches
// between goroutines, and with them half of the time that a request takes. Then the reader goes there.
const aloneTime = 5 * time.Millisecond

// manySteps is how many statements that were answered are remembered at most while there are others that were not.
const manySteps = 64

// readHere reads for the flight of a Do on the goroutine of its caller, until it has landed or ctx ends: then the reader goes on.
func (c *conn) readHere(ctx context.Context) {
	for {
		c.receive()
		c.mu.Lock()
		if c.flight.left == 0 {
			done, err := c.flight.done, c.flight.err
			c.leave()
			c.mu.Unlock()
			done(err)
			return
		}
		if ctx.Err() != nil {
			c.flight.reads = false
			c.mu.Unlock()
			go c.read()
			return
		}
		c.mu.Unlock()
	}
}

// read reads from the socket until the session ends, or until something was asked and answered: then it leaves the socket to who asks next.
func (c *conn) read() {
	for {
		landed := c.receive()
		c.mu.Lock()
		if c.ended != nil || landed && c.flight.left == 0 && len(c.awaited) == 0 {
			c.leave()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// leave leaves the socket alone for a moment, or to the reader if notifications may come. The mutex is held.
func (c *conn) leave() {
	c.answered = time.Now()
	if c.ended == nil && len(c.awaited) > 0 {
		go c.read()
		return
	}
	c.reading = false
	c.lookIn()
}

// lookIn has attend look at the socket within aloneTime. The mutex is held.
func (c *conn) lookIn() {
	if !c.attending && c.ended == nil {
		c.attending = true
		c.attend.Reset(aloneTime)
	}
}

// lookAfter sends the reader to the socket if it has been left alone for long enough, and sends who reads there and whose context has ended away.
func (c *conn) lookAfter() {
	c.mu.Lock()
	c.attending = false
	if c.ended != nil || c.reading && !c.flight.reads {
		c.mu.Unlock()
		return
	}
	if c.reading {
		if c.flight.ctx != nil && c.flight.ctx.Err() != nil {
			_ = c.socket.SetReadDeadline(time.Unix(1, 0))
		}
		c.lookIn()
		c.mu.Unlock()
		return
	}
	if time.Since(c.answered) < aloneTime {
		c.lookIn()
		c.mu.Unlock()
		return
	}
	c.reading = true
	c.mu.Unlock()
	c.read()
}

// receive takes one message from the socket. landed: it was the last one of a flight.
func (c *conn) receive() (landed bool) {
	m, err := c.front.Receive()
	if errors.Is(err, os.ErrDeadlineExceeded) { // from lookAfter, perhaps too late for whom it was meant
		_ = c.socket.SetReadDeadline(time.Time{})
		return false
	}
	if err != nil {
		c.end(fmt.Errorf("the connection has ended: %w", err))
		return false
	}
	switch m := m.(type) {
	case *pgproto3.DataRow:
		c.rows.add(m)
	case *pgproto3.ErrorResponse:
		if fatal(m) {
			c.end(fmt.Errorf("the server ended the session: %s (SQLSTATE %s)", oneLine(m.Message), m.Code))
		}
		c.rows.err = serverError(m)
	case *pgproto3.ReadyForQuery:
		landed = c.take()
		c.rows.reset()
	case *pgproto3.NotificationResponse:
		c.notified(m)
	}
	return landed
}

// notified tells of a notification: f (freed) or c (contended), and the key; or q, a question of who looks at locks.
func (c *conn) notified(m *pgproto3.NotificationResponse) {
	if m.Channel != channel || m.Payload == "" {
		return
	}
	switch rest := m.Payload[1:]; m.Payload[0] {
	case 'f': // who freed it tells all of us
		c.mu.Lock()
		awaited := c.awaited[session.Key(rest)]
		c.mu.Unlock()
		if awaited {
			c.events.Freed(session.Key(rest))
		}
	case 'q':
		c.asked(rest)
	case 'c':
		if int64(m.PID) != c.pid {
			c.events.Contended(session.Key(rest))
		}
	}
}

// take takes the answer to the oldest statement under way. landed: it was the last one of a flight.
func (c *conn) take() (landed bool) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return false
	}
	if c.next == len(c.steps) {
		c.mu.Unlock()
		c.end(errors.New("the server sent an answer to nothing"))
		return false
	}
	s := c.steps[c.next]
	if c.next++; c.next == len(c.steps) {
		c.steps, c.next = c.steps[:0], 0
	} else if c.next >= manySteps {
		c.steps, c.next = slices.Delete(c.steps, 0, c.next), 0
	}
	var err error
	tell := func() {}
	if len(s.ops) > 0 {
		if err = c.conclude(s, &c.rows); err == nil {
			if c.flight.left--; c.flight.left == 0 {
				tell, landed = c.land(nil), true
			}
		}
	} else if s.as == reports {
		err = c.reportNext()
	}
	c.mu.Unlock()
	if err != nil {
		c.end(err)
	}
	tell()
	return landed
}
