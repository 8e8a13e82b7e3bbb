package report

import (
	"fmt"
	"slices"
)

// table is figures in rows. The first column names what a row is about; the others are aligned to the right where they are figures.
type table struct {
	head []string
	rows [][]string
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
		{"cycle", "A lock that nobody else wants", "One client acquires and releases, in turns with the smallest question to the same server. " +
			"The ratio is that of a whole cycle to such a bare round trip, by medians, with the least and the greatest of the turns.",
			r.acquireCurves(), r.cycleTable()},
		{"handoff", "Hand-off", "From the release in one process to the return of Acquire in another one, which waited. " +
			"A ratio, such as 3 × PING, is to the bare round trip of the same run.", r.handOffs(), r.handOffTable()},
		{"takeover", "Takeover after a death", "The holder's process is killed with SIGKILL while another one waits. Where the server sees the connection close it " +
			"need not wait for the TTL to pass.", r.takeovers(), r.takeoverTable()},
		{"failover", "Loss of a server", "For how long nobody can have a lock.", r.failovers(), r.failoverTable()},
		{"contention", "Many clients, one lock", "Clients in several processes take one lock in turn, as fast as they can.", r.holdsPerSecond(), r.contentionTable()},
		{"fairness", "Fairness", "How often each of these clients had the lock, from the least to the most often; the dashed line is their mean.",
			r.fairness(), r.fairnessTable()},
		{"waiters", "What waiting costs the server", "Requests in a second of clients that wait for a lock that somebody has, after all have begun to wait.",
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
	t := table{head: []string{"", "what", "least", "median", "most", "samples"}}
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
	t := table{head: []string{"", "clients", "processes", "holds a second", "a hold ÷ round trip", "wait, median", "99 % within", "overlaps"}}
	for _, c := range r.Costs {
		for _, n := range c.Contention {
			t.rows = append(t.rows, []string{r.title(c.Subject), count(n.Clients), count(n.Processes), figureSpread(n.PerSecond), n.Ratio.times(),
				quantile(n.Wait, n.Wait.P50, micros), quantile(n.Wait, n.Wait.P99, micros), count(n.Overlaps)})
		}
	}
	return t
}

func (r *Report) fairnessTable() table {
	t := table{head: []string{"", "clients", "least", "most", "least ÷ most"}}
	for _, c := range r.Costs {
		if s, ok := c.shares(); ok {
			t.rows = append(t.rows, []string{r.title(c.Subject), count(s.clients), count(s.shares[0]), count(s.shares[len(s.shares)-1]), significant(s.evenness())})
		}
	}
	return t
}

func (r *Report) waitersTable() table {
	t := table{head: []string{"", "lock", "waiters", "processes", "requests a second"}}
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
