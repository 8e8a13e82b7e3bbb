package mysql

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	lockdriver "github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// server opens sessions. It is the engine's session.Server.
type server struct {
	o         Options
	layout    layout
	config    *gomysql.Config // ours alone
	table     string          // of fencing tokens, quoted
	ready     atomic.Bool     // the table is there
	foldsCase atomic.Bool     // the server takes no notice of case in the names of locks: MySQL
}

var _ session.Server = (*server)(nil)

func newServer(cfg *gomysql.Config, o Options) (*server, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	own, err := ownConfig(cfg, &o)
	if err != nil {
		return nil, err
	}
	if _, err := gomysql.NewConnector(own); err != nil {
		return nil, err
	}
	return &server{o: o, layout: o.layout(), config: own, table: "`" + strings.ReplaceAll(o.Table, ".", "`.`") + "`"}, nil
}

// markerPrefix begins the names of the locks by which sessions are known: what follows is random.
const markerPrefix = "lockport.session."

// Dial implements session.Server.
func (s *server) Dial(ctx context.Context, label string, e session.Events) (session.Conn, error) {
	ended := make(chan error, 2)
	c, _, err := s.dial(ctx, label, func(err error) {
		select {
		case ended <- err:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	return adapted{session.Adapt(c, ended, c.Close), c}, nil
}

// adapted is a conn as the engine wants it.
type adapted struct {
	session.Adapted
	conn *conn
}

func (a adapted) ID() string             { return a.conn.ID() }
func (a adapted) Silence() time.Duration { return a.conn.Silence() }
func (a adapted) Close()                 { a.conn.Close() }

// dial opens a session for locks, and says what is known of the server.
func (s *server) dial(ctx context.Context, label string, ended func(error)) (*conn, facts, error) {
	return s.open(ctx, label, ended, (*conn).setUp)
}

// open opens a session, and has it set up.
func (s *server) open(ctx context.Context, label string, ended func(error), setUp func(*conn) (facts, error)) (*conn, facts, error) {
	c := &conn{
		server:  s,
		marker:  markerPrefix + rand.Text()[:22],
		silence: s.o.TTL,
		jobs:    make(chan *job, 1),
		closing: make(chan struct{}),
	}
	raw, err := s.connect(ctx, c, label, ended)
	if err != nil {
		return nil, nil, classify(ctx, err)
	}
	c.sql = raw.(sqlConn)
	c.watchdog = time.AfterFunc(time.Hour, func() {
		c.end(fmt.Errorf("the server has not answered for %v", c.silence))
	})
	c.watchdog.Stop()
	stop := context.AfterFunc(ctx, c.Close) // what follows ends with ctx
	known, err := setUp(c)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = c.isOpen()
	}
	if err != nil {
		c.Close()
		_ = c.sql.Close()
		return nil, nil, classify(ctx, err)
	}
	// Who reads himself is sent away by a deadline, which not every connection of Config.DialFunc has.
	c.direct, c.answered = c.wire.isPlain() && c.wire.SetReadDeadline(time.Time{}) == nil, c.hasAnswered
	go c.run()
	return c, known, nil
}

// connect logs in, over a wire that tells its end.
func (s *server) connect(ctx context.Context, c *conn, label string, ended func(error)) (driver.Conn, error) {
	config := s.config.Clone()
	if label != "" { // for people who look into performance_schema.session_connect_attrs
		config.ConnectionAttributes = strings.TrimPrefix(config.ConnectionAttributes+",lockport:"+strings.ReplaceAll(label, ",", ";"), ",")
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		socket, err := s.config.DialFunc(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.wire = newWire(socket, func(err error) {
			if err = c.end(err); c.wasOpen() && ended != nil {
				ended(err)
			}
		})
		return c.wire, nil
	}
	connector, err := gomysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// isOpen ends the opening of a session: from now on its end is told. An error: it has ended meanwhile, which the error of the opening tells.
func (c *conn) isOpen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closing:
		return c.why
	default:
		c.open = true
		return nil
	}
}

func (c *conn) wasOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// setUp makes the session what locks need, or says why this server cannot give it.
func (c *conn) setUp() (facts, error) {
	known, err := c.setUpToLook()
	if err != nil {
		return nil, err
	}
	if err := c.mark(); err != nil {
		return nil, err
	}
	if !c.server.o.NoTokens {
		return known, c.prepareTable()
	}
	return known, nil
}

// wait is the session's wait_timeout, in seconds.
func (s *server) wait() int { return int(s.o.TTL / time.Second) }

// setUpToLook makes the session one that can ask, of a server that can have locks. It changes nothing that outlives the session.
func (c *conn) setUpToLook() (facts, error) {
	s := c.server
	known, err := c.learn()
	if err != nil {
		return nil, err
	}
	if err := known.refuse(); err != nil {
		return nil, err
	}
	s.foldsCase.Store(!known.isMariaDB())
	settings := []string{
		fmt.Sprint("wait_timeout=", s.wait()),
		"time_zone='+00:00'", // where no hour comes twice
		"sql_mode='STRICT_ALL_TABLES'",
		"autocommit=0", "autocommit=1", // which commits what init_connect may have begun
		"sql_select_limit=18446744073709551615",
		// A table that somebody else has locked must not keep this session, and what it holds, from being heard.
		"lock_wait_timeout=1", "innodb_lock_wait_timeout=1",
	}
	if known.isMariaDB() {
		settings = append(settings, "max_statement_time=0", "tx_isolation='REPEATABLE-READ'", "tx_read_only=0")
	} else {
		settings = append(settings, "max_execution_time=0", "transaction_isolation='REPEATABLE-READ'", "transaction_read_only=0")
	}
	_, err = c.sql.ExecContext(context.Background(), "SET SESSION "+strings.Join(settings, ",SESSION "), nil)
	return known, err
}

// mark takes the session's marker, and with it makes sure that locks belong to this session and no other: one statement's are seen by the next,
// under one and the same number, and one lock does not release another, as with servers of old.
func (c *conn) mark() error {
	wait := c.server.wait()
	second := c.marker + ".2"
	row, err := c.row(fmt.Sprintf("SELECT @@SESSION.wait_timeout,GET_LOCK('%s',0),GET_LOCK('%s',0)", c.marker, second))
	if err != nil {
		return err
	}
	if got := asInt(row[0]); got != int64(wait) {
		return fmt.Errorf("%w: the server has set wait_timeout to %d s instead of %d, so that it is not known when it ends a silent session: "+
			"choose a TTL that it takes", lockdriver.ErrRefused, got, wait)
	}
	if !isOne(row[1]) || !isOne(row[2]) {
		return fmt.Errorf("%w: the server does not give a session two locks at once (GET_LOCK)", lockdriver.ErrRefused)
	}
	row, err = c.row(fmt.Sprintf("SELECT CONNECTION_ID(),IS_USED_LOCK('%s'),IS_USED_LOCK('%s'),RELEASE_LOCK('%s')", c.marker, second, second))
	if err != nil {
		return err
	}
	id, greeted := asInt(row[0]), c.wire.number()
	if row[1] == nil || asInt(row[1]) != id || asInt(row[2]) != id || greeted != 0 && uint32(id) != greeted {
		return fmt.Errorf("%w: the session is not one of the server's own: a proxy that shares sessions among clients (ProxySQL, MaxScale, RDS Proxy) "+
			"stands before it, and would mix up who holds what: connect to the server itself", lockdriver.ErrRefused)
	}
	c.thread = uint64(id)
	return nil
}

// prepareTable makes the table of fencing tokens if it is missing. Deleting old rows shows whether it is there.
func (c *conn) prepareTable() error {
	s := c.server
	exec := func(query string) error {
		_, err := c.sql.ExecContext(context.Background(), query, nil)
		return err
	}
	err := exec(s.pruning())
	if number(err) == errNoTable {
		if err = exec(fmt.Sprintf(createFence, s.table)); err == nil {
			err = exec(s.pruning())
		}
	}
	switch n := number(err); {
	case err == nil:
		s.ready.Store(true)
	case s.ready.Load() && (n == errRowLockWait || n == errDeadlock): // it was there, and somebody has locked it
		return nil
	}
	return err
}

// finish makes sure that an earlier session of ours has ended: it still has its marker if it has not.
func (c *conn) finish(op *session.Op) error {
	thread, marker, ok := strings.Cut(op.ID, "/")
	if !ok {
		op.Err = fmt.Errorf("%w: %q identifies no session", lockdriver.ErrRefused, op.ID)
		return nil
	}
	query := fmt.Sprintf("SELECT IS_USED_LOCK('%s')", marker)
	for look := 1; look <= maxLooks && !op.OK; look++ {
		row, err := c.row(query)
		switch {
		case err != nil:
		case row[0] == nil: // its other locks follow within this moment: then it is no longer listed. Another may have its number since.
			var listed bool
			listed, err = c.isListed(thread)
			op.OK = err == nil && (!listed || look == maxLooks)
		case fmt.Sprint(row[0]) != thread:
			op.Err = fmt.Errorf("%w: the marker of session %s belongs to session %v", lockdriver.ErrRefused, thread, row[0])
			return nil
		case look == 1:
			if _, err = c.sql.ExecContext(context.Background(), "KILL "+thread, nil); number(err) == errNoSuchThread {
				err = nil
			}
		}
		if number(err) != 0 {
			op.Err = classify(context.Background(), err)
			return nil
		}
		if err != nil {
			return err
		}
		query = afterPause("'" + marker + "'") // the server ends it in its own time
	}
	return nil // if not yet, it is asked for again
}

// afterPause asks for the session that has the lock, 2 ms from now. A pause that is interrupted says nothing of the lock.
func afterPause(lock string) string {
	return "SELECT IF(SLEEP(0.002)<2,IS_USED_LOCK(" + lock + "),NULL)"
}

// maxLooks is how often it is looked whether a session has ended.
const maxLooks = 10

// isListed reports that the server lists a session of this number. Those of our own user are always shown.
func (c *conn) isListed(thread string) (bool, error) {
	rows, err := c.rows("SHOW PROCESSLIST")
	for _, row := range rows {
		if fmt.Sprint(row[0]) == thread {
			return true, nil
		}
	}
	return false, err
}

// checkKey refuses a key that this server would take for another.
func (s *server) checkKey(key session.Key) error {
	if s.o.ExactKeys && s.foldsCase.Load() && strings.ToLower(string(key)) != string(key) {
		return fmt.Errorf("%w: on MySQL the names of locks have no case: with exact keys, use lower-case letters", lockdriver.ErrRefused)
	}
	return nil
}

// asInt is a number that the server said; 0 if it is none.
func asInt(v driver.Value) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
	case string:
		i, _ := strconv.ParseInt(n, 10, 64)
		return i
	}
	return 0
}
