package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Reasons that several environments share.
const (
	whyKilled = "the system closes the connections, so holders notice within milliseconds; the server stays down for at least 500 ms"
	whyClosed = "server and holder each see the connection close; chance decides which is first, by milliseconds"
)

// sessionCells are the faults of one server whose sessions hold the locks. ended is the fault in which an operator ends a session, and driver is the
// driver of database/sql.
func sessionCells(ended, driver string) []play.Cell {
	return []play.Cell{
		{Fault: "server-killed", Outcome: report.Unavailable, Script: play.Storm(unavailable(granting.killed, 0.25, 0.1, 0.5)), Why: whyKilled},
		{Fault: "server-restarted", Outcome: report.Fenced, Script: play.Storm(play.InOrder((*play.Phase).Injected, granting.restart, (*play.Phase).Healed)), Gone: true, Argued: true,
			Why: "holders notice within milliseconds and the server takes longer to start, but the server does not wait for a slow holder"},
		{Fault: "server-restarted-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(granting.restart), Gone: true, Tries: 10,
			Why: "a restarted server knows no locks and grants at once; a holder with a silent link trusts its lock until its deadline"},
		{Fault: "server-paused-briefly", Outcome: report.Safe, Script: play.Storm(lasting(granting.frozen, 0.1, 0.9)),
			Why: "a paused server grants nothing; resumed, it ends only sessions silent for a TTL, whose holders know"},
		{Fault: "server-paused", Outcome: report.Unavailable, Script: play.Storm(unavailable(granting.frozen, 1, 0.1, 1)),
			Why: "holders get no answer for a TTL and end their holds"},
		{Fault: ended, Outcome: report.Fenced, Script: removedOpenly(Remove, false), Gone: true, Argued: true,
			Why: "the server frees an ended session's locks at once; the holder sees its socket close within milliseconds, but the next waiter may be granted first"},
		{Fault: ended + "-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(Remove), Gone: true, Tries: overtakenTries,
			Why: "the server frees an ended session's locks at once; a holder with a silent link trusts its lock until its deadline"},
		{Fault: "too-many-connections", Outcome: report.Safe, Script: play.Storm(usedUp(driver)),
			Why: "clients with a session go on; others wait for room"},
	}
}

// closedBothWays are the common faults that close a holder's connection: where locks belong to a session, the server sees that too.
// endedBehindSilence shows what happens if the server closes it.
var closedBothWays = []play.Cell{
	{Fault: "holder-cut", Outcome: report.Fenced, Gone: true, Argued: true, Why: whyClosed},
	{Fault: "holder-silent", Outcome: report.Fenced, Gone: true, Argued: true,
		Why: "during the silence the holder's deadline comes first; if the silence ends with a closed connection, as under holder-cut"},
	{Fault: "replies-lost", Outcome: report.Fenced, Gone: true, Argued: true, Why: whyClosed},
}

// usedUp opens connections as the workers' user, until the server has none left. For a while it also takes those that become free.
func usedUp(driver string) play.Act {
	return func(s *play.Phase) {
		db := play.Must(sql.Open(driver, in[*environment.SQL](s).DSN))
		var taken []*sql.Conn
		defer func() {
			for _, conn := range taken {
				_ = conn.Close()
			}
			_ = db.Close()
			s.Healed()
		}()
		s.Injected()
		end := time.Now().Add(s.BetweenTTLs(0.5, 1))
		for full := false; !full || time.Now().Before(end); {
			conn, err := db.Conn(s.Ctx)
			if err == nil {
				taken = append(taken, conn)
				continue
			}
			if !tooMany(err) {
				play.Check(err)
			}
			full = true
			s.Wait(10 * time.Millisecond)
		}
	}
}

// tooMany says that a server has no connection left.
func tooMany(err error) bool {
	var ofMySQL *mysql.MySQLError
	var ofPostgres *pgconn.PgError
	return errors.As(err, &ofMySQL) && ofMySQL.Number == 1040 || errors.As(err, &ofPostgres) && ofPostgres.Code == "53300"
}

var postgresCells = slices.Concat(Common(false, closedBothWays...), sessionCells("session-terminated", "pgx"))

var (
	pooler       = granting // clients connect to it
	pooled nodes = func(s *play.Phase) []*servers.Server { return s.Environment.Nodes()[1:] }
)

// postgresPoolerCells are the faults of a PostgreSQL behind PgBouncer, and of the PgBouncer.
var postgresPoolerCells = slices.Concat(Common(false, closedBothWays...), []play.Cell{
	{Fault: "server-killed", Outcome: report.Unavailable, Script: play.Storm(unavailable(pooled.killed, 0.25, 0.1, 0.5)), Why: whyKilled},
	{Fault: "pooler-killed", Outcome: report.Unavailable, Script: play.Storm(unavailable(pooler.killed, 0.25, 0.1, 0.5)),
		Why: "both sides see their connections close: the server frees the locks, holders notice within milliseconds, and the pooler stays down for at least 500 ms"},
	{Fault: "pooler-restarted-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(pooler.restart), Gone: true, Tries: 10,
		Why: "the server frees the locks when the pooler's connections close; a holder with a silent link trusts its lock until its deadline"},
	{Fault: "pooler-paused", Outcome: report.Unavailable, Script: play.Storm(unavailable(pooler.frozen, 1, 0.1, 1)),
		Why: "holders get no answer and end their holds before the server ends their sessions"},
})

var postgresFailoverCells = []play.Cell{
	{Fault: "failover", Outcome: report.Safe, Script: play.Storm(play.InOrder((*play.Phase).Injected, failOver(0.25, 0.5), (*play.Phase).Healed)),
		Why: "the replica knows no locks, but a killed primary's system closes its connections, so holders notice within milliseconds"},
	{Fault: "failover-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(failOver(0, 0)), Gone: true, Tries: 10,
		Why: "the replica grants held locks at once; if the primary's machine or network is lost, nobody tells its holders before their deadline"},
	{Fault: "split-brain", Outcome: report.Fenced, Script: splitBrain, Gone: true,
		Why: "the replica does not know the locks of the old primary, which keeps running; promotion advances the token sequence, so new tokens are greater"},
	{Fault: "split-brain-and-crash", Outcome: report.Unsafe, Script: splitBrainAndCrash,
		Why: "the old primary keeps running; its crash advances its sequence just as far, so both give the same tokens"},
}

// splitBrain promotes a replica that lags by a thousand tokens, while the primary and a holder on it keep running.
func splitBrain(s *play.Phase) {
	stays := s.Worker()
	s.Acquire(stays).Release()
	Lag(s)
	play.Check(in[*environment.PostgresPair](s).Primary.Run(s.Ctx, "SELECT count(nextval('public.lockport_token')) FROM generate_series(1, 1000)"))
	older := s.Acquire(stays)
	newer := holdElsewhere(s)
	if newer.Token <= older.Token {
		play.Check(fmt.Errorf("promotion did not advance the tokens: %d came after %d", newer.Token, older.Token))
	}
	s.Both(older, newer)
}

// splitBrainAndCrash also crashes and restarts the old primary.
func splitBrainAndCrash(s *play.Phase) {
	pair, stays := in[*environment.PostgresPair](s), s.Worker()
	s.Acquire(stays)
	play.Check(pair.CatchUp(s.Ctx))
	older := holdElsewhere(s)
	old := pair.Replica
	s.Note("the old primary crashes and restarts")
	play.Check(old.Kill())
	play.Check(old.Restart(s.Ctx))
	newer := s.Acquire(stays)
	if newer.Token > older.Token {
		play.Check(fmt.Errorf("tokens tell the holders apart: %d came after %d", newer.Token, older.Token))
	}
	s.Both(older, newer)
}

var mySQLCells = slices.Concat(Common(false, closedBothWays...), sessionCells("session-killed", "mysql"), []play.Cell{
	{Fault: "token-table-locked", Outcome: report.Safe, Script: play.Storm(lasting(lockTokenTable, 1, 2)),
		Why: "a holder keeps its lock or learns of the loss in time; a claim that gets no token releases the lock and fails"},
	{Fault: "token-table-dropped", Outcome: report.Safe, Script: play.Storm(dropTokenTable),
		Why: "the table is created again; the next tokens are the server's clock, ahead of earlier ones"},
	{Fault: "split-brain", Outcome: report.Fenced, Script: splitMySQL, Gone: true,
		Why: "replication does not copy GET_LOCK, so the new server grants at once; its tokens rise if its clock is right"},
})

// lockTokenTable locks the table of tokens, as some backups do, for longer than a statement waits for it.
func lockTokenTable(s *play.Phase) (end func()) {
	conn := play.Must(in[*environment.SQL](s).Server.Admin.Conn(s.Ctx))
	play.Must(conn.ExecContext(s.Ctx, "LOCK TABLES lockport_fence WRITE"))
	return func() {
		// Even after the context's end: the session returns to the pool, and would keep the table locked.
		play.Must(conn.ExecContext(context.WithoutCancel(s.Ctx), "UNLOCK TABLES"))
		play.Check(conn.Close())
	}
}

func dropTokenTable(s *play.Phase) {
	for range 5 {
		s.Injected()
		play.Must(in[*environment.SQL](s).Server.Admin.ExecContext(s.Ctx, "DROP TABLE IF EXISTS lockport_fence"))
		s.Pause(0, 0.25)
	}
}

// splitMySQL replaces a server by an empty one, while the old server and its holder keep running. Promoting a lagging replica has the same effect.
func splitMySQL(s *play.Phase) {
	older := s.Acquire(s.Worker())
	spare := play.Must(servers.StartMariaDB(s.Ctx, servers.MariaDBOptions{}))
	defer func() { play.Check(spare.Close()) }()
	moved := s.Worker()
	play.Check(moved.Endpoint.Retarget(spare.URL()))
	s.Injected()
	moved.Endpoint.Links.Each((*faultproxy.Proxy).KillConns)
	newer := s.Acquire(moved)
	s.Both(older, newer)
	newer.Release()
}

// tableCells are the faults of one SQL server with a table of locks.
var tableCells = slices.Concat(Common(false), leaseCells, []play.Cell{
	{Fault: "row-deleted", Outcome: report.Fenced, Script: play.InOrder(overtaken(Remove), removedOpenly(Remove, false)), Tries: overtakenTries,
		Why: "an operator's DELETE frees the lock at once; the holder notices at its next renewal. The next token is the server's clock and still rises"},
})

// tablePostgresCells are tableCells, plus a clock that can be set.
var tablePostgresCells = slices.Concat(tableCells, []play.Cell{
	{Fault: "clock-set-forward", Outcome: report.Fenced, Script: overtaken(granting.clocksForward), Tries: overtakenTries,
		Why: "a row expires by the server's clock: set forward, that ends locks early"},
})

// tableFailoverCells fail over to a server that lacks the lock's row.
var tableFailoverCells = []play.Cell{
	{Fault: "failover-of-a-lagging-replica", Outcome: report.Fenced, Script: endedBehindSilence(failOver(0, 0), rowsLag), Gone: true, Tries: 10,
		Why: "the promoted replica never got the row, and grants the lock again; the next token is its clock and still rises"},
}

// rowsLag makes the replica miss the rows of locks that are acquired from now on.
func rowsLag(s *play.Phase) {
	s.Acquire(s.Workers()[0]).Release() // creates the table
	play.Check(in[*environment.PostgresPair](s).CatchUp(s.Ctx))
	Lag(s)
}

// tablePoolerCells are the faults of a table behind PgBouncer, and of the PgBouncer.
var tablePoolerCells = slices.Concat(Common(false), []play.Cell{
	{Fault: "pooler-killed", Outcome: report.Safe, Script: play.Storm(contested(lasting(pooler.killed, 0.01, 0.2))),
		Why: "no lock belongs to a connection"},
	{Fault: "pooler-paused", Outcome: report.Safe, Script: play.Storm(contested(lasting(pooler.frozen, 0.1, 0.9))),
		Why: "a resumed pooler forwards delayed statements; the server runs them by its current clock"},
})
