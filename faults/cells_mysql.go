package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

// mySQLCells are the faults of one MariaDB.
var mySQLCells = slices.Concat(Common(false, closedBothWays...), sessionCells("session-killed"), cells(
	row{"wait-timeout-set", play.Safe, script(shorterTimeout(setWaitTimeout)),
		"an administrator's shorter wait_timeout does not end our sessions: each sets the TTL for itself"},
	row{"too-many-connections", play.Safe, storm(usedUp(connectMySQL)), whyTooMany},
	row{"token-table-locked", play.Safe, storm(lasting(lockTokenTable, 1, 2)),
		"who has a lock keeps it, or is told in time that it is lost; who wants one can draw no token, gives the lock back and gets an error"},
	row{"token-table-dropped", play.Safe, storm(dropTokenTable),
		"the table is made anew, and the next tokens are the server's clock, which is ahead of those before"},
	row{"split-brain", play.UnsafeFenced, script(splitMySQL, gone),
		"replication knows nothing of GET_LOCK: a server that takes the place of one that lives on with its clients grants at once; its tokens are its clock or more, if that is right"},
))

// setWaitTimeout sets for new sessions after what time of silence they end.
func setWaitTimeout(s *scene, d time.Duration) {
	must(in[*environment.MySQL](s).Admin.ExecContext(s.ctx, fmt.Sprint("SET GLOBAL wait_timeout = ", int(d.Seconds()))))
}

// connectMySQL takes a connection, if the server has one left for the workers' user.
func connectMySQL(s *scene) (closeIt func()) {
	connector := must((gomysql.MySQLDriver{}).OpenConnector(in[*environment.MySQL](s).Server.DSN()))
	conn, err := connector.Connect(s.ctx)
	var answer *gomysql.MySQLError
	if errors.As(err, &answer) && answer.Number == 1040 {
		return nil
	}
	check(err)
	return func() { _ = conn.Close() }
}

// lockTokenTable has somebody lock the table of tokens, as some backups do, for longer than a statement waits for it.
func lockTokenTable(s *scene) (end func()) {
	conn := must(in[*environment.MySQL](s).Admin.Conn(s.ctx))
	must(conn.ExecContext(s.ctx, "LOCK TABLES lockport_fence WRITE"))
	return func() {
		// Also when the context has ended: the session goes back to the pool, where it would keep the table.
		must(conn.ExecContext(context.WithoutCancel(s.ctx), "UNLOCK TABLES"))
		check(conn.Close())
	}
}

// dropTokenTable has somebody drop the table of tokens, again and again.
func dropTokenTable(s *scene) {
	for range 5 {
		s.Injected()
		must(in[*environment.MySQL](s).Admin.ExecContext(s.ctx, "DROP TABLE IF EXISTS lockport_fence"))
		s.pause(0, 0.25)
	}
}

// splitMySQL has a server that knows nothing take the place of one that lives on, and a holder with it: as a replica that lags does which is promoted.
func splitMySQL(s *scene) {
	pair := in[*environment.MySQL](s)
	older := s.acquire(s.worker(), 5)
	spare := must(servers.StartMariaDB(s.ctx, servers.MariaDBOptions{}))
	defer func() { check(spare.Close()) }()
	s.Injected()
	pair.Spare.Store(spare)
	defer pair.Spare.Store(nil)
	newer := s.acquire(s.worker(), 5)
	s.both(older, newer)
	s.release(newer)
}
