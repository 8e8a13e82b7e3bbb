package libraries

import (
	"context"
	"database/sql"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/driver"
)

// mysqlLock is a GET_LOCK of MariaDB or MySQL, on one session that is this lock's alone.
type mysqlLock struct {
	lock
	db   *sql.DB
	mine table
	key  func(name string) string

	mu   sync.Mutex // one query at a time
	conn *sql.Conn
}

func newMySQL(target string) (*mysqlLock, error) {
	config, err := mysql.ParseDSN(target)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	l := &mysqlLock{db: sql.OpenDB(connector), key: Digest}
	l.caps = driver.Capabilities{Backend: "mysql", Ends: driver.EndsSession, FixedTTL: sqlTTL}
	l.take, l.renew, l.release, l.close = l.get, never, l.free, l.hangUp
	l.abandon = func(ctx context.Context, req driver.Request) error {
		if !l.mine.has(req.Name, req.Owner) {
			return nil
		}
		return l.free(ctx, &claim{req: req})
	}
	return l, nil
}

// onMySQL opens the lock with what spoil changes.
func onMySQL(spoil func(*mysqlLock)) opener {
	return func(_ context.Context, target string) (driver.Backend, error) {
		l, err := newMySQL(target)
		if err != nil {
			return nil, err
		}
		spoil(l)
		return l, nil
	}
}

// ask asks the session, which is begun when it is first needed.
func (l *mysqlLock) ask(ctx context.Context, query, name string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		conn, err := l.db.Conn(context.WithoutCancel(ctx))
		if err != nil {
			return false, err
		}
		l.conn = conn
	}
	var yes sql.NullInt64
	err := l.conn.QueryRowContext(ctx, query, l.key(name)).Scan(&yes)
	return yes.Int64 == 1, err
}

func (l *mysqlLock) get(ctx context.Context, req driver.Request) (*claim, error) {
	if !l.mine.enter(req.Name, req.Owner) {
		return nil, driver.ErrHeld
	}
	c, err := l.getAnyhow(ctx, req)
	if err != nil {
		l.mine.leave(req.Name, req.Owner)
	}
	return c, err
}

// getAnyhow asks the server alone.
func (l *mysqlLock) getAnyhow(ctx context.Context, req driver.Request) (*claim, error) {
	granted, err := l.ask(ctx, "SELECT GET_LOCK(?, 0)", req.Name)
	if err := held(granted, err); err != nil {
		return nil, err
	}
	return new(claim), nil
}

// hangUp closes the session, and with it the database's pool.
func (l *mysqlLock) hangUp() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
	return l.db.Close()
}

func (l *mysqlLock) free(ctx context.Context, c *claim) error {
	defer l.mine.leave(c.req.Name, c.req.Owner)
	had, err := l.ask(ctx, "SELECT RELEASE_LOCK(?)", c.req.Name)
	switch {
	case err != nil:
		return unknown(err)
	case !had:
		return driver.ErrLost
	}
	return nil
}

// mysqlBugs are locks by GET_LOCK.
var mysqlBugs = soundly(onMySQL(func(*mysqlLock) {}), []Exhibit{
	{
		Name: "one-connection-gets-it-twice", Library: "mysqljs", Reference: "https://github.com/mysqljs/mysql/issues/2511", Server: MySQL,
		Is:       "two claims share a connection, for which GET_LOCK succeeds as often as it asks",
		CaughtBy: []string{"exclusion/two-claims"}, Sees: "another claim was granted",
		broken: onMySQL(func(l *mysqlLock) { l.take = l.getAnyhow }),
	},
	{
		Name: "names-as-they-are", Library: "closure_tree", Reference: "https://github.com/ClosureTree/closure_tree/issues/231", Server: MySQL,
		Is:       "names go to GET_LOCK as they are, which refuses long ones and does not tell a from A",
		CaughtBy: []string{"names/quick"}, Sees: "differs from all that are held",
		broken: onMySQL(func(l *mysqlLock) { l.key = func(name string) string { return name } }),
	},
})
