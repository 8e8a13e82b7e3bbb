package faults

import (
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

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
	{Fault: "failover-of-a-lagging-replica", Outcome: report.Fenced, Script: endedBehindSilence((*play.Phase).FailOver, rowsLag), Gone: true, Tries: 10,
		Why: "the promoted replica never got the row, and grants the lock again; the next token is its clock and still rises"},
}

// rowsLag makes the replica miss the rows of locks that are acquired from now on.
func rowsLag(s *play.Phase) {
	s.Acquire(s.Workers()[0]).Release() // creates the table
	play.Check(in[*environment.PostgresPair](s).CatchUp(s.Ctx))
	lag(s)
}

// tablePoolerCells are the faults of a table behind PgBouncer, and of the PgBouncer.
var tablePoolerCells = slices.Concat(Common(false), []play.Cell{
	{Fault: "pooler-killed", Outcome: report.Safe, Script: play.Storm(contested(lasting(pooler.killed, 0.01, 0.2))),
		Why: "no lock belongs to a connection"},
	{Fault: "pooler-paused", Outcome: report.Safe, Script: play.Storm(contested(lasting(pooler.frozen, 0.1, 0.9))),
		Why: "a resumed pooler forwards delayed statements; the server runs them by its current clock"},
})
