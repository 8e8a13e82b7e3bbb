package faults

import (
	"database/sql"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// Reasons that several environments share.
const (
	whyKilled  = "the system closes the connections, so holders notice within milliseconds; the server stays down for at least 500 ms"
	whyClosed  = "server and holder each see the connection close; chance decides which is first, by milliseconds"
	whyTooMany = "clients with a session go on; others wait for room"
)

// sessionCells are the faults of one server whose sessions hold the locks. ended is the fault in which an operator ends a session.
func sessionCells(ended string) []play.Cell {
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
func usedUp[S any](driver string, dsn func(S) string) play.Act {
	return func(s *play.Phase) {
		db := play.Must(sql.Open(driver, dsn(in[S](s))))
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
