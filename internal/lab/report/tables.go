package report

import (
	"fmt"
	"slices"
)

// table is figures in rows. The first column names what a row is about; the others are aligned to the right where they are figures.
type table struct {
	head []string
	rows [][]string
	ids  []string // of the rows, for links; none, or one for each
}

// section is a part of the costs: a table, and a picture of it where there is one.
type section struct {
	id, title, about string
	picture          *picture
	table            table
}

// costSections are the parts of the costs that there are figures for.
func (r *Report) costSections() []section {
	all := []section{
		{"overview", "At a glance", "Medians; what they are of, and how they spread, stands below. Round trips: Acquire and Release together, as a multiple of the smallest " +
			"question to the same server and its answer. Without a server: for how long a client had no lock when one was lost.", nil, r.overview()},
		{"cycle", "A lock that nobody else wants", "One client acquires and releases, and asks the smallest question to the same server between two such cycles. " +
			"The ratio is that of a whole cycle to such a bare round trip, by medians.",
			r.acquires(), r.cycleTable()},
		{"handoff", "Hand-off", "From the call of Release in one process to the return of Acquire in another one, which had waited for 5 to 15 ms. " +
			"A ratio, such as 3 × PING, is to a bare round trip; of files, to a call of the system.", r.handOffs(), r.handOffTable()},
		{"takeover", "Takeover after a death", "A process that holds ten locks is killed with SIGKILL while others wait for them. Where the server, or of files the system, " +
			"sees that the process is gone, nobody needs to wait until the TTL has passed.", r.takeovers(), r.takeoverTable()},
		{"failover", "Loss of a server", "One client takes a lock again and again while a server is killed. What is told is the longest time between two locks that it had.", r.failovers(), r.failoverTable()},
		{"contention", "Many clients, one lock", "Clients, each a goroutine of one of several processes, take one lock and release it at once, as fast as they can. Those of one process " +
			"hand the lock on among themselves without asking the server, for 100 ms at most, before other processes have a turn: that is why eight clients have it so much more often " +
			"than two, which are in two processes.", r.holdsPerSecond(), r.contentionTable()},
		{"waiters", "What waiting costs the server", "All that clients send in a second while they wait for a lock that somebody has, counted before the servers after all have begun to wait. " +
			"Those of one process ask once for all of them; those of an article's lock each for itself.",
			r.waiterLoad(), r.waitersTable()},
	}
	return slices.DeleteFunc(all, func(s section) bool { return len(s.table.rows) == 0 })
}

func (r *Report) cycleTable() table {
	t := table{head: []string{"", "bare round trip", "Acquire, median", "99 % within", "Release, median", "99 % within", "cycle ÷ round trip"}}
	for _, c := range r.Costs {
		if c.RoundTrip == nil && c.Cycle == nil {
			continue
		}
		line := []string{r.title(c.Subject), "–", "–", "–", "–", "–", "–"}
		if c.RoundTrip != nil {
			line[1] = quantile(*c.RoundTrip, c.RoundTrip.P50, micros)
			if c.Question != "" {
				line[1] += " (" + c.Question + ")"
			}
		}
		if y := c.Cycle; y != nil {
			copy(line[2:], []string{quantile(y.Acquire, y.Acquire.P50, micros), quantile(y.Acquire, y.Acquire.P99, micros),
				quantile(y.Release, y.Release.P50, micros), quantile(y.Release, y.Release.P99, micros), y.Ratio.times()})
		}
		t.rows = append(t.rows, line)
	}
	return t
}

// quantile is a figure of q, or a dash where q has no samples.
func quantile(q Quantiles, v float64, text func(float64) string) string {
	if q.N == 0 {
		return "–"
	}
	return text(v)
}

func (r *Report) handOffTable() table {
	t := table{head: []string{"", "median", "90 % within", "99 % within", "÷ round trip", "samples"}}
	for _, c := range r.Costs {
		if h := c.HandOff; h != nil {
			q := h.Time
			t.rows = append(t.rows, []string{r.title(c.Subject), quantile(q, q.P50, micros), quantile(q, q.P90, micros), quantile(q, q.P99, micros),
				h.Ratio.times(), count(q.N)})
		}
	}
	return t
}

func (r *Report) takeoverTable() table {
	t := table{head: []string{"", "TTL", "least", "median", "most", "samples"}}
	for _, c := range r.Costs {
		if c.Takeover != nil {
			t.rows = append(t.rows, append([]string{r.title(c.Subject), millis(c.TTL)}, gap(c.Takeover.Time)...))
		}
	}
	return t
}

func (r *Report) failoverTable() table {
	t := table{head: []string{"", "what is lost", "least", "median", "most", "samples"}}
	for _, c := range r.Costs {
		if c.Failover != nil {
			t.rows = append(t.rows, append([]string{r.title(c.Subject), c.Failover.What}, gap(c.Failover.Time)...))
		}
	}
	return t
}

func gap(q Quantiles) []string {
	return []string{quantile(q, q.Min, millis), quantile(q, q.P50, millis), quantile(q, q.Max, millis), count(q.N)}
}

func (r *Report) contentionTable() table {
	t := table{head: []string{"", "clients", "processes", "holds per second", "time per hold ÷ round trip", "wait, median", "99 % within", "overlaps"}}
	for _, c := range r.Costs {
		for _, n := range c.Contention {
			t.rows = append(t.rows, []string{r.title(c.Subject), count(n.Clients), count(n.Processes), figureSpread(n.PerSecond), n.Ratio.times(),
				quantile(n.Wait, n.Wait.P50, micros), quantile(n.Wait, n.Wait.P99, micros), count(n.Overlaps)})
		}
	}
	return t
}

func (r *Report) waitersTable() table {
	t := table{head: []string{"", "lock", "waiters", "processes", "requests per second"}}
	for _, c := range r.Costs {
		for _, w := range c.Waiters {
			lock := "lockport"
			if w.Article != "" {
				lock = w.Article
			}
			t.rows = append(t.rows, []string{r.title(c.Subject), lock, count(w.Waiters), count(w.Processes), significant(w.PerSecond)})
		}
	}
	return t
}

// notMeasured are the scenarios without figures, with why.
func (r *Report) notMeasured() (all []string) {
	for _, c := range r.Costs {
		var names []string
		for name := range c.NotRun {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			all = append(all, fmt.Sprintf("%s, %s: %s", r.title(c.Subject), name, c.NotRun[name]))
		}
	}
	return all
}
