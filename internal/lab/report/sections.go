package report

import (
	"math"
	"strconv"
)

// median is that of q for people, or a dash without samples.
func median(q Quantiles, text func(float64) string) string {
	if q.N == 0 {
		return "–"
	}
	return text(q.P50)
}

// id is the anchor of a subject's costs: "costs-redis".
func (c Costs) id() string { return "costs-" + anchorOf(c.Subject) }

// section is a part of the costs: a table whose first column names the subject.
type section struct {
	ID, Title, About string
	Bar              int // the column that has a bar below its figures; 0 for none
	Head             []string
	Rows             []costRow
	of               func(Costs) []costRow // the rows of a subject, without the first column
}

// costRow is a row of a section.
type costRow struct {
	ID    string // for links; empty for none
	Cells []string
	Bar   float64 // the length of its bar: a value, and in [view.Sections] the percentage of the longest
}

var sections = []section{
	{
		ID: "overview", Title: "At a glance", About: "Medians. Round trips: Acquire and Release together, as a multiple of the shortest request to the same server. " +
			"Takeover: from the kill of a holder's process until a waiter has its lock.",
		Head: []string{"Acquire", "Release", "round trips", "hand-off", "takeover"},
		of: func(c Costs) []costRow {
			return []costRow{{ID: c.id(), Cells: []string{median(c.Cycle.Acquire, Micros), median(c.Cycle.Release, Micros),
				Spread{N: min(1, c.Cycle.Ratio.N), Median: c.Cycle.Ratio.Median}.String(), median(c.HandOff.Time, Micros), median(c.Takeover.Time, Millis)}}}
		},
	},
	{
		ID: "cycle", Title: "A lock that nobody else wants", About: "One client acquires and releases, and between two such cycles sends the shortest request to the same server. " +
			"The ratio is that of a whole cycle to such a bare round trip, by medians.",
		Bar: 2, Head: []string{"bare round trip", "Acquire, median", "99 % within", "Release, median", "99 % within", "cycle ÷ round trip"},
		of: func(c Costs) []costRow {
			trip, a, r := median(c.RoundTrip, Micros), c.Cycle.Acquire, c.Cycle.Release
			if c.Question != "" {
				trip += " (" + c.Question + ")"
			}
			return rowOf(a.N, a.P50, trip, Micros(a.P50), Micros(a.P99), Micros(r.P50), Micros(r.P99),
				c.Cycle.Ratio.String())
		},
	},
	{
		ID: "handoff", Title: "Hand-off", About: "From the call of Release in one process to the return of Acquire in another one, which had waited for 5 to 15 ms. " +
			"The ratio is to a bare round trip; for files, to a system call.",
		Bar: 1, Head: []string{"median", "90 % within", "99 % within", "÷ round trip", "samples"},
		of: func(c Costs) []costRow {
			q := c.HandOff.Time
			return rowOf(q.N, q.P50, Micros(q.P50), Micros(q.P90), Micros(q.P99), c.HandOff.Ratio.String(), strconv.Itoa(q.N))
		},
	},
	{
		ID: "takeover", Title: "Takeover after a death", About: "A process that holds ten locks is killed with SIGKILL while others wait for them. Where the server, or for files the system, " +
			"sees that the process is gone, nobody has to wait for the TTL.",
		Bar: 3, Head: []string{"TTL", "least", "median", "most", "samples"},
		of: func(c Costs) []costRow {
			q := c.Takeover.Time
			return rowOf(q.N, q.P50, Millis(c.TTL), Millis(q.Min), Millis(q.P50), Millis(q.Max), strconv.Itoa(q.N))
		},
	},
	{
		ID: "contention", Title: "Many clients, one lock", About: "Clients, each a goroutine of one of several processes, take one lock and release it at once, as fast as they can. " +
			"Clients of one process hand the lock on among themselves, without asking the server, for at most 100 ms before other processes have a turn.",
		Bar: 3, Head: []string{"clients", "processes", "holds per second", "time per hold ÷ round trip", "wait, median", "99 % within", "overlaps"},
		of: func(c Costs) (rows []costRow) {
			for _, n := range c.Contention {
				rows = append(rows, costRow{Bar: n.PerSecond.Median, Cells: []string{strconv.Itoa(n.Clients), strconv.Itoa(n.Processes), n.PerSecond.String(), n.Ratio.String(),
					Micros(n.Wait.P50), Micros(n.Wait.P99), strconv.Itoa(n.Overlaps)}})
			}
			return rows
		},
	},
	{
		ID: "waiters", Title: "What waiting costs the server", About: "All requests per second that clients send while they wait for a held lock, counted at the servers after all have begun to wait. " +
			"Clients of one process ask once for all of them.",
		Bar: 3, Head: []string{"waiters", "processes", "requests per second"},
		of: func(c Costs) (rows []costRow) {
			for _, w := range c.Waiters {
				rows = append(rows, costRow{Bar: w.PerSecond, Cells: []string{strconv.Itoa(w.Waiters), strconv.Itoa(w.Processes), significant(w.PerSecond)}})
			}
			return rows
		},
	},
}

// rowOf is a row with a bar; none without samples.
func rowOf(samples int, bar float64, cells ...string) []costRow {
	if samples == 0 {
		return nil
	}
	return []costRow{{Bar: bar, Cells: cells}}
}

// Sections are the parts of the costs that there are figures for, the overview first.
func (r view) Sections() (all []section) {
	for _, s := range sections {
		s.Head = append([]string{""}, s.Head...)
		longest := 0.0
		for _, c := range r.Costs {
			for _, row := range s.of(c) {
				row.Cells = append([]string{r.Title(c.Subject)}, row.Cells...)
				row.Bar = max(0, row.Bar)
				longest = max(longest, row.Bar)
				s.Rows = append(s.Rows, row)
			}
		}
		for i := range s.Rows {
			s.Rows[i].Bar *= 100 / max(longest, math.SmallestNonzeroFloat64)
		}
		if len(s.Rows) > 0 {
			all = append(all, s)
		}
	}
	return all
}
