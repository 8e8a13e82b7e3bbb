package faults

import (
	"time"

	"github.com/lockport/lockport/internal/lab/play"
)

// row is a cell as the tables of this package write it: a fault, what it does to locks, how it is made, and why it ends so.
type row struct {
	fault   string
	outcome play.Outcome
	how     how
	why     string
}

// how sets the fields of a cell that say how its fault is made.
type how func(*play.Cell)

// cells are the cells that rows describe.
func cells(rows ...row) []play.Cell {
	all := make([]play.Cell, len(rows))
	for i, r := range rows {
		all[i] = play.Cell{Fault: r.fault, Outcome: r.outcome, Why: r.why}
		r.how(&all[i])
	}
	return all
}

// storm injects a fault while workers take and release locks.
func storm(inject play.Act, more ...how) how {
	return func(c *play.Cell) {
		c.Inject = inject
		all(more)(c)
	}
}

// script leads a few workers through one interleaving.
func script(a play.Act, more ...how) how {
	return func(c *play.Cell) {
		c.Script = a
		all(more)(c)
	}
}

func all(some []how) how {
	return func(c *play.Cell) {
		for _, h := range some {
			h(c)
		}
	}
}

func gone(c *play.Cell)   { c.Gone = true }
func argued(c *play.Cell) { c.Gone, c.Argued = true, true }

// unseen is argued, where the server ends no claim at the moment of the fault.
func unseen(c *play.Cell) { c.Argued = true }

func tries(n int) how                   { return func(c *play.Cell) { c.Tries = n } }
func recovers(within time.Duration) how { return func(c *play.Cell) { c.Recovery = within } }
