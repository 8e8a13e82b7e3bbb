package mysql

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// server opens sessions on connections of a pool.
type server struct {
	o         Options
	db        *sql.DB
	layout    session.Layout
	table     string      // of fencing tokens, quoted
	foldsCase atomic.Bool // the server ignores case in lock names: MySQL
}

// dial is session.Options.Dial.
func (s *server) dial(ctx context.Context, _ string, _ session.Events) (session.Conn, error) {
	c, _, err := s.open(ctx)
	return c, err
}

// conn is one session: a connection taken out of the pool for good.
type conn struct {
	link
	server *server
	thread int64  // the session's connection id
	marker string // the unique name of a lock that the session holds while it lives
	drawn  int    // tokens since old rows were last deleted

	briefly string // limits the time of the statement that it begins: renewals wait behind it; empty with a long TTL, and on MySQL, which limits only reads
}

// open takes a connection from the pool, makes it a session for locks, and returns the server's facts.
func (s *server) open(ctx context.Context) (_ *conn, known facts, err error) {
	c := &conn{server: s, marker: markerPrefix + rand.Text()[:22]}
	if c.link, known, err = s.connect(ctx); err != nil {
		return nil, nil, err
	}
	if err = c.setUp(ctx, known); err != nil {
		c.Close()
		return nil, nil, classify(ctx, err)
	}
	return c, known, nil
}

// connect takes a connection to a server that can hold locks from the pool. Except on Windows, go-sql-driver passes over those that have ended while
// idle.
func (s *server) connect(ctx context.Context) (l link, known facts, err error) {
	if l.Conn, err = s.db.Conn(ctx); err != nil {
		return l, nil, classify(ctx, err)
	}
	// ProxySQL answers exactly this text itself.
	rows, err := l.rows(ctx, "select @@version_comment limit 1")
	if len(rows) > 0 && rows[0].Text(0) == "(ProxySQL)" {
		err = errProxy
	}
	if err == nil {
		known, err = l.readFacts(ctx)
	}
	if err == nil { // an earlier user of the connection, or init_connect, may have left tables locked, or a transaction, which autocommit=1 would commit
		err = l.exec(ctx, "ROLLBACK AND NO CHAIN NO RELEASE") // without these words, completion_type decides on both
	}
	if err == nil {
		err = l.exec(ctx, "UNLOCK TABLES")
	}
	if err != nil {
		l.Close()
	}
	return l, known, classify(ctx, err)
}

// Close implements session.Conn. Back in the pool, the connection would pass on its locks and settings.
func (l link) Close() {
	_ = l.Raw(func(any) error { return sqldriver.ErrBadConn })
}

// markerPrefix begins the names of markers; the rest is random.
const markerPrefix = "lockport.session."

// setUp makes the connection a session for locks, or returns why this server does not allow it.
func (c *conn) setUp(ctx context.Context, known facts) error {
	c.server.foldsCase.Store(!known.isMariaDB())
	silence := int64(c.server.o.TTL / time.Second)
	if known["thread_handling"] == "pool-of-threads" { // MariaDB's pool looks at a clock of its own, which is late when the machine is busy
		silence++
	}
	settings := []string{
		fmt.Sprint("wait_timeout=", silence),
		"time_zone='+00:00'", // where no hour repeats
		"sql_mode='STRICT_ALL_TABLES'",
		"autocommit=1",
		// A table locked by another session must not keep this session silent.
		"lock_wait_timeout=1", "innodb_lock_wait_timeout=1",
	}
	if known.isMariaDB() {
		if limit := c.server.o.TTL / 4; limit < time.Second { // it costs time, and the limits above serve longer TTLs
			c.briefly = fmt.Sprintf("SET STATEMENT max_statement_time=%g FOR ", limit.Seconds())
		}
		settings = append(settings, "max_statement_time=0", "tx_isolation='REPEATABLE-READ'", "tx_read_only=0")
	} else {
		settings = append(settings, "max_execution_time=0", "transaction_isolation='REPEATABLE-READ'", "transaction_read_only=0")
	}
	if err := c.exec(ctx, "SET SESSION "+strings.Join(settings, ",SESSION ")); err != nil {
		return err
	}
	if err := c.mark(ctx, silence); err != nil || c.server.o.NoTokens {
		return err
	}
	return c.prepareTable(ctx)
}

// mark takes the session's marker, and checks that the server has set wait_timeout to silence, in seconds, and that the connection is one session: its
// second statement must see the lock of the first, under the same id. Locks of the connection's earlier user are released: GET_LOCK is re-entrant, so
// this session would share them.
func (c *conn) mark(ctx context.Context, silence int64) error {
	r, err := c.row(ctx, fmt.Sprintf("SELECT RELEASE_ALL_LOCKS(),@@SESSION.wait_timeout,GET_LOCK('%s',0),CONNECTION_ID()", c.marker))
	if err != nil {
		return err
	}
	if got := r.Number(1); got != silence {
		return fmt.Errorf("%w: the server set wait_timeout to %d s instead of %d, and would end silent sessions at another time: "+
			"choose a TTL that it accepts", driver.ErrRefused, got, silence)
	}
	c.thread = r.Number(3)
	r, err = c.row(ctx, fmt.Sprintf("SELECT CONNECTION_ID(),IS_USED_LOCK('%s')", c.marker))
	if err == nil && (r.Number(0) != c.thread || r.Number(1) != c.thread) {
		err = errProxy
	}
	return err
}

var errProxy = fmt.Errorf("%w: the connection goes through a proxy that shares sessions among clients, as ProxySQL does, "+
	"which would mix up lock holders: connect to the server itself", driver.ErrRefused)

// Listen implements session.Conn: database/sql does not report the end of an idle connection.
func (c *conn) Listen(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Do implements session.Conn. When ctx ends, go-sql-driver closes the connection: ctx ends only with the session or with an overdue answer.
func (c *conn) Do(ctx context.Context, ops []*session.Op) error {
	switch op := ops[0]; {
	case op.Kind == session.End:
		return c.endEarlier(ctx, op)
	case len(op.Slots) > 0:
		return c.tryPermit(ctx, op)
	}
	return c.locks(ctx, ops, 0)
}

// Wait implements session.Conn.
func (c *conn) Wait(ctx context.Context, op *session.Op) error {
	for {
		round, cancel := context.WithTimeout(ctx, waitRound+c.server.o.TTL)
		err := c.locks(round, []*session.Op{op}, waitRound)
		cancel()
		if err != nil || op.OK || op.Err != nil {
			return err
		}
	}
}

// waitRound is how long the server lets a session wait at once, so that a dead connection is noticed. Longer waits queue again.
const waitRound = time.Minute

// endEarlier makes sure that an earlier session has ended. It keeps its marker until then, and its other locks for a moment longer.
func (c *conn) endEarlier(ctx context.Context, op *session.Op) error {
	earlier := op.Earlier.(*conn)
	for look := range maxLooks { // it ends asynchronously; if it has not, the engine asks again
		r, err := c.row(ctx, fmt.Sprintf("SELECT SLEEP(%g),IS_USED_LOCK('%s'),(SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID=%d)",
			min(0.002, float64(look)), earlier.marker, earlier.thread))
		switch {
		case err != nil:
		case !r[1].Valid: // its id may already belong to another session
			if op.OK = r.Number(2) == 0 || look == maxLooks-1; op.OK {
				return nil
			}
		case r.Number(1) != earlier.thread: // something in between gives sessions other ids: KILL would end a stranger's
			err = fmt.Errorf("%w: the marker of session %d belongs to session %s", driver.ErrRefused, earlier.thread, r.Text(1))
		case look == 0:
			if err = c.exec(ctx, fmt.Sprint("KILL ", earlier.thread)); number(err) == errNoSuchThread {
				err = nil
			}
		}
		if number(err) != 0 || errors.Is(err, driver.ErrRefused) {
			op.Err = classify(ctx, err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxLooks is how often endEarlier checks whether a session has ended.
const maxLooks = 10

// isReadOnly is true of a primary that was replaced. It keeps its sessions and their locks, which exclude nobody on the new primary.
// MariaDB 12 has further values.
const isReadOnly = "(CONCAT(@@read_only) NOT IN ('0','OFF') OR @@innodb_read_only)"

// lockQuery makes one statement of ops, with a function for each, in their order, and returns the ops it covers. A Ping asks for the session's own
// marker: if something in between has replaced the connection, that is noticed. wait is how long a Try waits. The answer has a digit for each
// function: 1, 0, 2 for NULL, or 3 for a Try or Ping of a read-only server.
func (c *conn) lockQuery(ops []*session.Op, wait time.Duration) (query string, asked []*session.Op) {
	var functions []string
	for _, op := range ops {
		if op.Err = c.server.checkKey(op.Key); op.Err != nil {
			continue
		}
		function := ""
		switch op.Kind {
		case session.Try:
			function = fmt.Sprintf("IF(%s,3,GET_LOCK(%s,%d))", isReadOnly, literal(op.Key), wait/time.Second)
		case session.Free:
			function = "RELEASE_LOCK(" + literal(cmp.Or(op.Slot, op.Key)) + ")"
		case session.Ping:
			function = "IF(" + isReadOnly + ",3,IS_USED_LOCK('" + c.marker + "')=CONNECTION_ID())"
		}
		functions, asked = append(functions, "COALESCE("+function+",2)"), append(asked, op)
	}
	return "SELECT CONCAT(" + strings.Join(functions, ",") + ")a", asked
}

// locks carries out ops in one statement, then draws tokens in another: a token is drawn only once the lock is certainly taken. An error means that
// the outcome is unknown and the session must end.
func (c *conn) locks(ctx context.Context, ops []*session.Op, wait time.Duration) error {
	query, asked := c.lockQuery(ops, wait)
	if len(asked) == 0 {
		return nil
	}
	var answer string
	err := c.QueryRowContext(ctx, query).Scan(&answer)
	if err != nil { // even if the server says so: some of the functions may have run
		return err
	}
	if len(answer) != len(asked) {
		return fmt.Errorf("the server answered %q to %d functions", answer, len(asked))
	}
	var granted []*session.Op
	for i, op := range asked {
		op.OK = answer[i] == '1'
		switch {
		case answer[i] == '3':
			op.Err = session.ErrReadOnly
		case op.Kind == session.Ping && !op.OK:
			return errors.New("another session answers")
		case op.Kind == session.Try && op.OK:
			granted = append(granted, op)
		case op.Kind == session.Try && answer[i] == '2':
			op.Err = fmt.Errorf("%w: the server has ended the request", driver.ErrUnavailable)
		}
	}
	return c.draw(ctx, granted)
}

// tryPermit takes the first free one of several locks, none of which the session has, and draws its token. Errors are as for locks.
func (c *conn) tryPermit(ctx context.Context, op *session.Op) error {
	var query strings.Builder
	query.WriteString("SELECT CASE WHEN " + isReadOnly + " THEN -1")
	for i, slot := range op.Slots {
		fmt.Fprintf(&query, " WHEN GET_LOCK(%s,0)=1 THEN %d", literal(slot), i)
	}
	r, err := c.row(ctx, query.String()+" END")
	switch {
	case number(err) != 0:
		return c.undoTries(ctx, []*session.Op{op}, err)
	case err != nil || !r[0].Valid:
		return err
	}
	slot := r.Number(0)
	if slot < 0 {
		op.Err = session.ErrReadOnly
		return nil
	}
	op.OK, op.Slot = true, op.Slots[slot]
	return c.drawForPermit(ctx, op)
}

// undoTries releases the locks of tries that failed with why. An error: not all are released, and the session ends.
func (c *conn) undoTries(ctx context.Context, tries []*session.Op, why error) error {
	var releases []string
	for _, op := range tries {
		keys := op.Slots
		if len(keys) == 0 {
			keys = []session.Key{op.Key}
		}
		for _, key := range keys {
			releases = append(releases, "RELEASE_LOCK("+literal(key)+")")
		}
		op.OK, op.Err = false, classify(ctx, why)
	}
	return c.exec(ctx, "DO "+strings.Join(releases, ","))
}

// checkKey refuses a key that this server would confuse with another.
func (s *server) checkKey(key session.Key) error {
	if s.o.ExactKeys && s.foldsCase.Load() && strings.ToLower(string(key)) != string(key) {
		return fmt.Errorf("%w: MySQL ignores case in lock names: with exact keys, use lower-case letters", driver.ErrRefused)
	}
	return nil
}
