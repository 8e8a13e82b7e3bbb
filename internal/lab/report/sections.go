package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// metric is a figure of a subject's costs at a glance.
type metric struct {
	head, finding string // in tables, and in findings
	text          func(float64) string
	of            func(*Costs) (float64, bool)
}

var metrics = []metric{
	{"Acquire", "Acquire, of a lock that nobody else wants", micros, func(c *Costs) (float64, bool) { return p50(c.acquire()) }},
	{"Release", "", micros, func(c *Costs) (float64, bool) {
		if c.Cycle == nil {
			return 0, false
		}
		return p50(&c.Cycle.Release)
	}},
	{"both, in round trips", "Acquire and Release together, relative to the shortest request to the same server", times, func(c *Costs) (float64, bool) {
		if c.Cycle == nil {
			return 0, false
		}
		return c.Cycle.Ratio.Median, c.Cycle.Ratio.N > 0
	}},
	{"hand-off", "from a release until a waiter in another process has the lock", micros, func(c *Costs) (float64, bool) { return p50(c.handOff()) }},
	{"takeover", "from the kill of a holder until somebody else has the lock", millis, func(c *Costs) (float64, bool) { return p50(c.takeover()) }},
	{"without a server", "without a lock when a server is lost", millis, func(c *Costs) (float64, bool) { return p50(c.failover()) }},
}

func p50(q *Quantiles) (float64, bool) {
	if q == nil || q.N == 0 {
		return 0, false
	}
	return q.P50, true
}

// The quantiles of a scenario; nil without any.
func (c *Costs) acquire() *Quantiles {
	if c.Cycle == nil {
		return nil
	}
	return &c.Cycle.Acquire
}

func (c *Costs) handOff() *Quantiles {
	if c.HandOff == nil {
		return nil
	}
	return &c.HandOff.Time
}

func (c *Costs) takeover() *Quantiles {
	if c.Takeover == nil {
		return nil
	}
	return &c.Takeover.Time
}

func (c *Costs) failover() *Quantiles {
	if c.Failover == nil {
		return nil
	}
	return &c.Failover.Time
}

// medians are the metrics of a subject, and none for those without figures.
func (c *Costs) medians(none string) (all []string) {
	for _, m := range metrics {
		text := none
		if v, ok := m.of(c); ok {
			text = m.text(v)
		}
		all = append(all, text)
	}
	return all
}

// id is the anchor of a subject's costs: "costs-redis".
func (c *Costs) id() string { return "costs-" + anchorOf(c.Subject) }

// question names the bare round trip of a subject: "PING".
func (c *Costs) question() string {
	if c.Question == "" {
		return "a bare round trip"
	}
	return c.Question
}

// Table is figures in rows. The first column names what a row is about.
type Table struct {
	Head []string
	Rows [][]string
	IDs  []string // of the rows, for links; none, or one for each
}

// ID is that of a row; empty if it has none.
func (t Table) ID(row int) string {
	if row < len(t.IDs) {
		return t.IDs[row]
	}
	return ""
}

// section is a part of the costs: a table, and a picture of it where there is one.
type section struct {
	ID, Title, About string
	Picture          *picture
	Table            Table
}

// scenario is how a section is made: rows of the table and bars of the chart for each subject.
type scenario struct {
	section
	head  []string
	rows  func(c *Costs) [][]string
	chart Chart
	bars  func(c *Costs) []Bar
}

const whisker = "bar: median; whisker: 25th to 90th percentile"

var scenarios = []scenario{
	{
		section: section{ID: "overview", Title: "At a glance", About: "Medians. Round trips: Acquire and Release together, as a multiple of the shortest request to the same server. " +
			"Without a server: how long a client had no lock when one was lost."},
		rows: func(c *Costs) [][]string { return [][]string{c.medians("–")} },
	},
	{
		section: section{ID: "cycle", Title: "A lock that nobody else wants", About: "One client acquires and releases, and between two such cycles sends the shortest request to the same server. " +
			"The ratio is that of a whole cycle to such a bare round trip, by medians."},
		head: []string{"bare round trip", "Acquire, median", "99 % within", "Release, median", "99 % within", "cycle ÷ round trip"},
		rows: func(c *Costs) [][]string {
			if c.RoundTrip == nil && c.Cycle == nil {
				return nil
			}
			trip, y := quantile(c.RoundTrip, micros, 50), c.Cycle
			if c.RoundTrip != nil && c.Question != "" {
				trip += " (" + c.Question + ")"
			}
			if y == nil {
				y = &Cycle{}
			}
			return [][]string{{trip, quantile(&y.Acquire, micros, 50), quantile(&y.Acquire, micros, 99), quantile(&y.Release, micros, 50), quantile(&y.Release, micros, 99), y.Ratio.times()}}
		},
		chart: Chart{Name: "acquire-latency", Title: "How long an uncontended Acquire takes", Log: true, Tick: tickMicros, Axis: whisker + "; logarithmic"},
		bars:  func(c *Costs) []Bar { return timeBar(c.acquire(), micros, "") },
	},
	{
		section: section{ID: "handoff", Title: "Hand-off", About: "From the call of Release in one process to the return of Acquire in another one, which had waited for 5 to 15 ms. " +
			"A ratio, such as 3 × PING, is to a bare round trip; for files, to a system call."},
		head: []string{"median", "90 % within", "99 % within", "÷ round trip", "samples"},
		rows: func(c *Costs) [][]string {
			q := c.handOff()
			if q == nil {
				return nil
			}
			return [][]string{{quantile(q, micros, 50), quantile(q, micros, 90), quantile(q, micros, 99), c.HandOff.Ratio.times(), count(q.N)}}
		},
		chart: Chart{Name: "hand-off", Title: "From a release to the return of Acquire in another process", Tick: tickMicros, Axis: whisker},
		bars: func(c *Costs) []Bar {
			more := ""
			if c.HandOff != nil && c.HandOff.Ratio.N > 0 {
				more = c.HandOff.Ratio.of(c.question())
			}
			return timeBar(c.handOff(), micros, more)
		},
	},
	{
		section: section{ID: "takeover", Title: "Takeover after a death", About: "A process that holds ten locks is killed with SIGKILL while others wait for them. Where the server, or for files the system, " +
			"sees that the process is gone, nobody has to wait for the TTL."},
		head:  []string{"TTL", "least", "median", "most", "samples"},
		rows:  func(c *Costs) [][]string { return extremes(c.takeover(), millis(c.TTL)) },
		chart: Chart{Name: "takeover", Title: "From the kill of a holder's process until a waiter has the lock", Tick: tickMillis, Axis: whisker},
		bars:  func(c *Costs) []Bar { return timeBar(c.takeover(), millis, "TTL "+millis(c.TTL)) },
	},
	{
		section: section{ID: "failover", Title: "Loss of a server", About: "One client takes a lock again and again while a server is killed. The figure is the longest time between two locks that it got."},
		head:    []string{"what is lost", "least", "median", "most", "samples"},
		rows: func(c *Costs) [][]string {
			if c.Failover == nil {
				return nil
			}
			return extremes(c.failover(), c.Failover.What)
		},
		chart: Chart{Name: "fail-over", Title: "How long nobody can get a lock when a server is lost", Tick: tickMillis, Axis: whisker},
		bars: func(c *Costs) []Bar {
			all := timeBar(c.failover(), millis, "")
			for i := range all {
				all[i].About = c.Failover.What
			}
			return all
		},
	},
	{
		section: section{ID: "contention", Title: "Many clients, one lock", About: "Clients, each a goroutine of one of several processes, take one lock and release it at once, as fast as they can. " +
			"Clients of one process hand the lock on among themselves, without asking the server, for at most 100 ms before other processes have a turn."},
		head: []string{"clients", "processes", "holds per second", "time per hold ÷ round trip", "wait, median", "99 % within", "overlaps"},
		rows: func(c *Costs) (rows [][]string) {
			for _, n := range c.Contention {
				rows = append(rows, []string{count(n.Clients), count(n.Processes), figureSpread(n.PerSecond), n.Ratio.times(), quantile(&n.Wait, micros, 50), quantile(&n.Wait, micros, 99),
					count(n.Overlaps)})
			}
			return rows
		},
		chart: Chart{Name: "holds-per-second", Title: "How often per second many clients get one lock", Log: true, Tick: tickCount, Axis: "holds per second of all clients together, logarithmic; whisker: least to greatest"},
		bars: func(c *Costs) (all []Bar) {
			for _, n := range c.Contention {
				if all = nil; n.PerSecond.N > 0 { // the last level has most clients
					all = []Bar{{About: fmt.Sprintf("%s in %s", plural(n.Clients, "client", "clients"), plural(n.Processes, "process", "processes")), Value: n.PerSecond.Median, From: n.PerSecond.Low,
						To: n.PerSecond.High, Figure: significant(n.PerSecond.Median) + " / s"}}
				}
			}
			return all
		},
	},
	{
		section: section{ID: "waiters", Title: "What waiting costs the server", About: "All requests per second that clients send while they wait for a held lock, counted at the servers after all have begun to wait. " +
			"Clients of one process ask once for all of them; those of an article's lock ask one by one."},
		head: []string{"lock", "waiters", "processes", "requests per second"},
		rows: func(c *Costs) (rows [][]string) {
			for _, w := range c.Waiters {
				lock := "lockport"
				if w.Article != "" {
					lock = w.Article
				}
				rows = append(rows, []string{lock, count(w.Waiters), count(w.Processes), significant(w.PerSecond)})
			}
			return rows
		},
		chart: Chart{Name: "waiters", Title: "What the servers are asked while clients wait for a held lock", Log: true, Tick: tickCount, Axis: "requests per second, logarithmic"},
		bars: func(c *Costs) (all []Bar) {
			for _, w := range c.Waiters {
				b := Bar{About: fmt.Sprintf("%s in %s", plural(w.Waiters, "waiter", "waiters"), plural(w.Processes, "process", "processes")), Value: w.PerSecond, Figure: significant(w.PerSecond) + " / s"}
				if w.Article != "" {
					of, _, _ := strings.Cut(w.Article, ":")
					b.Title, b.About, b.Hollow = "An article's lock", plural(w.Waiters, "waiter", "waiters")+" "+of, true
				}
				all = append(all, b)
			}
			return all
		},
	},
}

// costSections are the parts of the costs that there are figures for.
func (r *Report) costSections() (all []section) {
	for _, s := range scenarios {
		if s.ID == "overview" {
			for _, m := range metrics {
				s.head = append(s.head, m.head)
			}
		}
		one := s.section
		one.Table.Head = append([]string{""}, s.head...)
		for i := range r.Costs {
			c := &r.Costs[i]
			for _, cells := range s.rows(c) {
				one.Table.Rows = append(one.Table.Rows, append([]string{r.title(c.Subject)}, cells...))
			}
			if s.ID == "overview" {
				one.Table.IDs = append(one.Table.IDs, c.id())
			}
			if s.bars == nil {
				continue
			}
			for _, b := range s.bars(c) {
				if b.Title == "" {
					b.Title, b.Series = r.title(c.Subject), r.seriesOf(c.Subject)
				}
				s.chart.Bars = append(s.chart.Bars, b)
			}
		}
		if len(s.chart.Bars) > 0 {
			one.Picture = s.chart.picture()
		}
		if len(one.Table.Rows) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// timeBar is a bar for the median of q; none without samples.
func timeBar(q *Quantiles, text func(float64) string, more string) []Bar {
	if q == nil || q.N == 0 {
		return nil
	}
	return []Bar{{Value: q.P50, From: q.P25, To: q.P90, Figure: text(q.P50), More: more}}
}

// quantile is a percentile of q for people, or a dash where q has no samples.
func quantile(q *Quantiles, text func(float64) string, percent int) string {
	if q == nil || q.N == 0 {
		return "–"
	}
	return text(map[int]float64{0: q.Min, 50: q.P50, 90: q.P90, 99: q.P99, 100: q.Max}[percent])
}

// extremes is a row with the least, the median and the most of q.
func extremes(q *Quantiles, what string) [][]string {
	if q == nil {
		return nil
	}
	return [][]string{{what, quantile(q, millis, 0), quantile(q, millis, 50), quantile(q, millis, 100), count(q.N)}}
}

// notMeasured are the scenarios without figures, with why.
func (r *Report) notMeasured() (all []string) {
	for _, c := range r.Costs {
		for _, name := range slices.Sorted(maps.Keys(c.NotRun)) {
			all = append(all, fmt.Sprintf("%s, %s: %s", r.title(c.Subject), name, c.NotRun[name]))
		}
	}
	return all
}
