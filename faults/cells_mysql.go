package faults

import (
	"context"
	"slices"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

var mySQLCells = slices.Concat(Common(false, closedBothWays...), sessionCells("session-killed"), []play.Cell{
	{Fault: "too-many-connections", Outcome: report.Safe, Script: play.Storm(usedUp("mysql", func(m *environment.MySQL) string { return m.Server.DSN() })), Why: whyTooMany},
	{Fault: "token-table-locked", Outcome: report.Safe, Script: play.Storm(lasting(lockTokenTable, 1, 2)),
		Why: "a holder keeps its lock or learns of the loss in time; a claim that gets no token releases the lock and fails"},
	{Fault: "token-table-dropped", Outcome: report.Safe, Script: play.Storm(dropTokenTable),
		Why: "the table is created again; the next tokens are the server's clock, ahead of earlier ones"},
	{Fault: "split-brain", Outcome: report.Fenced, Script: splitMySQL, Gone: true,
		Why: "replication does not copy GET_LOCK, so the new server grants at once; its tokens rise if its clock is right"},
})

// lockTokenTable locks the table of tokens, as some backups do, for longer than a statement waits for it.
func lockTokenTable(s *play.Phase) (end func()) {
	conn := play.Must(in[*environment.MySQL](s).Server.Admin.Conn(s.Ctx))
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
		play.Must(in[*environment.MySQL](s).Server.Admin.ExecContext(s.Ctx, "DROP TABLE IF EXISTS lockport_fence"))
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
