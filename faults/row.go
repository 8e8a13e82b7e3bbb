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
func cells(rows ...row) (all []play.Cell) {
	for _, r := range rows {
		c := play.Cell{Fault: r.fault, Outcome: r.outcome, Why: r.why}
		r.how(&c)
		all = append(all, c)
	}
	return all
}

// storm injects a fault while workers take and release locks.
func storm(inject play.Act, more ...how) how {
	return also(func(c *play.Cell) { c.Inject = inject }, more)
}

// script leads a few workers through one interleaving.
func script(a play.Act, more ...how) how {
	return also(func(c *play.Cell) { c.Script = a }, more)
}

func also(first how, more []how) how {
	return func(c *play.Cell) {
		first(c)
		for _, h := range more {
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
