package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/lockport/lockport/internal/session"
)

// conn is one session at the server. It implements session.Conn.
type conn struct {
	server *server
	events session.Events
	link   link
	pid    int64 // of the server's process
	marker int64 // see setUp; the first argument of every statement

	statements *statements
	prepared   map[string]bool
	shares     map[session.Key]int // how many times the session has a key in shared mode
}

// Close implements session.Conn.
func (c *conn) Close() { c.link.close() }

// count records that op took (1) or released (-1) a shared lock.
func (c *conn) count(op *session.Op, n int) {
	if !op.Shared {
		return
	}
	if c.shares[op.Key] += n; c.shares[op.Key] == 0 {
		delete(c.shares, op.Key)
	}
}

// Do implements session.Conn. Frees and tries share a statement: nobody can tell that from carrying them out in order.
func (c *conn) Do(ctx context.Context, ops []*session.Op) error {
	return c.link.use(func(p *pgx.Conn) error {
		defer c.drainNotifications(p)
		var frees, tries, beside []*session.Op
		var keys []int64 // of beside
		for _, op := range ops {
			switch {
			case op.Kind == session.Free:
				frees = append(frees, op)
			case op.Kind == session.Try && op.Shared && c.shares[op.Key] > 0: // the server would grant it ahead of waiting writers
				beside, keys = append(beside, op), append(keys, number(op.Key))
			case op.Kind == session.Try && len(op.Slots) == 0:
				tries = append(tries, op)
			default:
				return c.doAlone(ctx, p, op)
			}
		}
		if err := c.change(ctx, p, frees, tries); err != nil || len(beside) == 0 {
			return err
		}
		return c.ask(ctx, p, beside, c.statements.tryBeside, keys)
	})
}

// change releases and tries locks with one statement.
func (c *conn) change(ctx context.Context, p *pgx.Conn, frees, tries []*session.Op) error {
	switch {
	case len(frees) == 0 && len(tries) == 0:
		return nil
	case len(frees) == 0 && len(tries) == 1:
		return c.ask(ctx, p, tries, c.statements.try, number(tries[0].Key), tries[0].Shared)
	case len(frees) == 1 && len(tries) == 0:
		return c.ask(ctx, p, frees, c.statements.free, freeArgs(frees[0])...)
	}
	keys, awaited, shared := make([]int64, len(frees)), make([]int64, len(frees)), make([]bool, len(frees))
	his, los := make([]int32, len(frees)), make([]int32, len(frees))
	for i, op := range frees {
		keys[i], awaited[i], shared[i] = number(cmp.Or(op.Slot, op.Key)), number(op.Key), op.Shared
		his[i], los[i] = side(awaited[i])
	}
	tried, triedShared := make([]int64, len(tries)), make([]bool, len(tries))
	for i, op := range tries {
		tried[i], triedShared[i] = number(op.Key), op.Shared
	}
	return c.ask(ctx, p, append(frees, tries...), c.statements.change, keys, awaited, his, los, shared, tried, triedShared)
}

// freeArgs are the arguments of statements.free: the key of a lock or permit, the key that waiters await with its side lock, and the mode.
func freeArgs(op *session.Op) []any {
	awaited := number(op.Key)
	hi, lo := side(awaited)
	return []any{number(cmp.Or(op.Slot, op.Key)), awaited, hi, lo, op.Shared}
}

// tryPermit takes one of several permits, none of which the session has.
func (c *conn) tryPermit(ctx context.Context, p *pgx.Conn, op *session.Op) error {
	slots := make([]int64, len(op.Slots))
	for i, slot := range op.Slots {
		slots[i] = number(slot)
	}
	rows, err := c.query(ctx, p, c.statements.tryPermit, slots)
	if op.Err = refusal(p, err); op.Err != nil {
		_, err = c.query(ctx, p, c.statements.undoPermit, slots)
	}
	if err != nil {
		return ended(err)
	}
	if op.OK = len(rows) == 2 && op.Err == nil; op.OK {
		op.Slot, op.Token = sessionKey(rows[0].Int64), uint64(rows[1].Int64)
	}
	return nil
}

// doAlone carries out an op that is neither a Free nor the Try of a lock.
func (c *conn) doAlone(ctx context.Context, p *pgx.Conn, op *session.Op) error {
	ops := []*session.Op{op}
	key := number(op.Key)
	hi, lo := side(key)
	switch op.Kind {
	case session.Try:
		return c.tryPermit(ctx, p, op)
	case session.Ping:
		return c.ask(ctx, p, ops, c.statements.ping)
	case session.End:
		earlier := op.Earlier.(*conn)
		hi, lo := side(earlier.marker)
		return c.ask(ctx, p, ops, c.statements.end, earlier.pid, int64(uint32(hi)), int64(uint32(lo)))
	case session.Await:
		return c.ask(ctx, p, ops, c.statements.await, key, hi, lo)
	case session.Leave:
		return c.ask(ctx, p, ops, c.statements.leave, hi, lo)
	}
	return nil
}

// Wait implements session.Conn. It waits in turns, without a limit.
func (c *conn) Wait(ctx context.Context, op *session.Op) error {
	return c.link.use(func(p *pgx.Conn) error {
		key := number(op.Key)
		// A row says that the session is ours. Its notification is advice: another session's commit may keep the server's queue locked.
		if rows, err := c.inTime(ctx, p, c.statements.contend, key); len(rows) == 0 {
			if op.Err = refusal(p, err); op.Err != nil {
				return nil
			}
			return ended(err)
		}
		for {
			turn, cancel := context.WithTimeout(ctx, waitLockTimeout+c.server.ttl)
			rows, err := c.query(turn, p, c.statements.wait, key, op.Shared)
			cancel()
			if !hasCode(err, "55P03") { // lock_timeout
				return c.recordAnswers(ctx, p, []*session.Op{op}, rows, err)
			}
			// The server may have granted the lock before the timeout: as the draw of the token waited, or just then. The next turn would take it twice.
			// A row says that the session does not have it, even if the notification failed then.
			if rows, err := c.inTime(ctx, p, c.statements.free, freeArgs(op)...); len(rows) == 0 {
				return ended(err)
			}
			c.drainNotifications(p) // pgx keeps them, and the wait may last for days
		}
	})
}

// inTime is query with the TTL as its limit: the engine limits Do, not Wait.
func (c *conn) inTime(ctx context.Context, p *pgx.Conn, st statement, args ...any) ([]pgtype.Int8, error) {
	ctx, cancel := context.WithTimeout(ctx, c.server.ttl)
	defer cancel()
	return c.query(ctx, p, st, args...)
}

// Listen implements session.Conn.
func (c *conn) Listen(ctx context.Context) error {
	return c.link.use(func(p *pgx.Conn) error {
		for {
			n, err := waitForNotification(ctx, p)
			switch {
			case n != nil:
				c.deliver(n)
			case err != nil && p.IsClosed():
				return ended(err)
			case ctx.Err() != nil:
				return nil
			}
		}
	})
}

// drainNotifications delivers the notifications that came with answers.
func (c *conn) drainNotifications(p *pgx.Conn) {
	for n, _ := p.WaitForNotification(expired); n != nil; n, _ = p.WaitForNotification(expired) {
		c.deliver(n)
	}
}

// expired is a context that has ended.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// deliver passes a notification on to Events.
func (c *conn) deliver(n *pgconn.Notification) {
	if n.Channel != channel || n.Payload == "" {
		return
	}
	switch key := session.Key(n.Payload[1:]); n.Payload[0] {
	case 'f':
		c.events.Freed(key)
	case 'c':
		if int64(n.PID) != c.pid {
			c.events.Contended(key)
		}
	}
}

// ask carries out ops with one statement, whose rows are the answers.
func (c *conn) ask(ctx context.Context, p *pgx.Conn, ops []*session.Op, st statement, args ...any) error {
	rows, err := c.query(ctx, p, st, args...)
	return c.recordAnswers(ctx, p, ops, rows, err)
}

// query returns the rows of a statement. With an error, the rows before it still count.
func (c *conn) query(ctx context.Context, p *pgx.Conn, st statement, args ...any) (all []pgtype.Int8, err error) {
	defer func() {
		if inOtherSession(err) {
			c.server.wholeSessions.Store(false)
			err = errors.New("another session answers: " + poolerText)
		}
	}()
	if !c.prepared[st.name] {
		if _, err := p.Prepare(ctx, st.name, st.sql); err != nil {
			return nil, err
		}
		c.prepared[st.name] = true
	}
	var v pgtype.Int8
	rows, _ := p.Query(ctx, st.name, append([]any{c.marker}, args...)...) // rows has the error
	_, err = pgx.ForEachRow(rows, []any{&v}, func() error {
		all = append(all, v)
		return nil
	})
	return all, err
}

// recordAnswers writes the rows of a statement into its ops. An error ends the session.
//
// Rows before an error of the server still count: a failed transaction undoes nothing of a session's locks. The other ops may have taken or released
// their key before the error. undo makes sure that those keys are released.
func (c *conn) recordAnswers(ctx context.Context, p *pgx.Conn, ops []*session.Op, rows []pgtype.Int8, err error) error {
	failure := refusal(p, err)
	if err != nil && failure == nil {
		return ended(err)
	}
	if len(rows) < len(ops) && failure == nil {
		return fmt.Errorf("the server sent %d rows instead of %d", len(rows), len(ops))
	}
	for i, op := range ops {
		if i >= len(rows) {
			if err := c.undo(ctx, p, op, failure); err != nil {
				return ended(err)
			}
			continue
		}
		v := rows[i]
		switch op.Kind {
		case session.Try:
			if op.OK = v.Valid; op.OK {
				op.Token = uint64(v.Int64)
				c.count(op, 1)
			}
		case session.Free, session.End:
			if op.OK = v.Int64 > 0; op.OK {
				c.count(op, -1)
			}
		}
	}
	return nil
}

// undo follows an op that the server answered only with failure. An error ends the session.
func (c *conn) undo(ctx context.Context, p *pgx.Conn, op *session.Op, failure error) error {
	op.Err = failure
	switch op.Kind {
	case session.Try, session.Free:
		others := c.shares[op.Key] // that must keep it: one Free too many would release another reader's
		if op.Kind == session.Free {
			op.OK, op.Err, others = true, nil, others-1
			c.count(op, -1)
		}
		if others > 0 {
			return errors.New(failure.Error())
		}
		_, err := c.inTime(ctx, p, c.statements.free, freeArgs(op)...)
		return err
	case session.Await:
		hi, lo := side(number(op.Key))
		_, err := c.query(ctx, p, c.statements.leave, hi, lo)
		return err
	}
	return nil
}
