package postgres

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/internal/session"
)

// manySteps is how many statements that were answered are remembered at most while there are others that were not.
const manySteps = 64

// stays says that notifications may come. The mutex is held.
func (c *conn) stays() bool { return len(c.awaited) > 0 }

// receive takes one message from the socket. landed: it was the last one of a flight.
func (c *conn) receive() (landed bool) {
	m, err := c.front.Receive()
	if err != nil {
		if c.line.Failed(err) {
			c.end(fmt.Errorf("the connection has ended: %w", err))
		}
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

// notified tells of a notification: f (freed) or c (contended), and the key.
func (c *conn) notified(m *pgproto3.NotificationResponse) {
	if m.Channel != channel || m.Payload == "" {
		return
	}
	switch rest := m.Payload[1:]; m.Payload[0] {
	case 'f': // who freed it tells all of us
		c.line.Lock()
		awaited := c.awaited[session.Key(rest)]
		c.line.Unlock()
		if awaited {
			c.events.Freed(session.Key(rest))
		}
	case 'c':
		if int64(m.PID) != c.pid {
			c.events.Contended(session.Key(rest))
		}
	}
}

// take takes the answer to the oldest statement under way. landed: it was the last one of a flight.
func (c *conn) take() (landed bool) {
	c.line.Lock()
	if c.line.Ended() != nil {
		c.line.Unlock()
		return false
	}
	if c.next == len(c.steps) {
		c.line.Unlock()
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
	tell := func(error) {}
	if len(s.ops) > 0 {
		if err = c.conclude(s, &c.rows); err == nil {
			if c.left--; c.left == 0 {
				tell, landed = c.line.Land(nil), true
			}
		}
	}
	c.line.Unlock()
	if err != nil {
		c.end(err)
	}
	tell(nil)
	return landed
}
