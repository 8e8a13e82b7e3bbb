package page

import (
	"math"
	"slices"
	"strings"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// Goal is a target for a figure of lockport on some families of servers: a ratio within one run, or a bound that is independent of the machine.
type Goal struct {
	Row      string // the group of goals on the page
	Families string
	What     string // for readers: what is compared with what
	// Scenarios are the names of its scenarios. The worst of several counts.
	Scenarios string
	Figure    string
	Ours      string // "lockport", or a variant
	// To is what to compare with: bare, peers, or a library; the best of several counts in each turn. Empty: the bound is on the figure itself.
	To string
	// Is is ≤ or ≥.
	Is    string
	Bound float64
	// Beyond, if not empty, is a scenario whose figure of Ours is subtracted.
	Beyond string
}

const (
	cycle     = "uncontended cycle"
	own       = "64 goroutines, each with its own name"
	contended = "one name, one process, 8 to 512 goroutines"
	processes = "one name, 4 processes of 16 goroutines"
	handOff   = "hand-off to another process"
	inProcess = "hand-off within a process"
	waiting   = "10,000 goroutines wait for one name"
	held      = "10,000 held locks"
	takeover  = "takeover after the holder's SIGKILL"

	ours     = "lockport"
	noTokens = "lockport, no tokens"
	servers  = "redis redlock etcd zookeeper postgres mysql"
	locking  = servers + " table nats"
	crowds   = "contend-8 contend-64 contend-512"
)

// The groups of libraries that a goal may compare with. Those that took part in the scenario count.
const (
	bare  = "bare"  // the floors
	peers = "peers" // the floors and other libraries
)

// Goals are lockport's goals, in display order.
var Goals = []Goal{
	{cycle, "redis etcd postgres", "p50, to the bare commands", "cycle", "p50", ours, bare, "≤", 1.05, ""},
	{cycle, "redis", "p50, to redislock", "cycle", "p50", ours, "redislock", "≤", 1, ""},
	{cycle, "redis", "p50, to rueidislock", "cycle", "p50", ours, "rueidislock", "≤", 1, ""},
	{cycle, "redlock", "p50, to redsync", "cycle", "p50", ours, "redsync", "≤", 0.5, ""},
	{cycle, "zookeeper", "p50, to the bare commands", "cycle", "p50", ours, bare, "≤", 1.15, ""},
	{cycle, "table nats", "p50, to the bare statements or requests", "cycle", "p50", ours, bare, "≤", 1.15, ""},
	{cycle, "zookeeper", "p50, to zk.Lock", "cycle", "p50", ours, "zk.Lock", "≤", 1, ""},
	{cycle, "mysql", "p50, to the bare commands (no tokens)", "cycle", "p50", noTokens, bare, "≤", 1.05, ""},

	{own, "redis", "cycles, to rueidislock", "own-64", "cycles", ours, "rueidislock", "≥", 1.5, ""},
	{own, "etcd", "cycles, to concurrency.Mutex", "own-64", "cycles", ours, "concurrency.Mutex", "≥", 1.8, ""},
	{own, "zookeeper", "cycles, to zk.Lock", "own-64", "cycles", ours, "zk.Lock", "≥", 1, ""},
	{own, "postgres", "cycles, to the bare commands", "own-64", "cycles", ours, bare, "≥", 2.5, ""},
	{own, "mysql", "cycles, to the bare commands", "own-64", "cycles", ours, bare, "≥", 1, ""},
	{own, "mysql", "cycles, to the bare commands (no tokens)", "own-64", "cycles", noTokens, bare, "≥", 1, ""},

	{contended, servers, "hand-offs, to the best peer", crowds, "hand-offs", ours, peers, "≥", 50, ""},
	{contended, servers, "largest share to smallest", crowds, "largest to smallest share", ours, "", "≤", 1.1, ""},
	{contended, servers, "goroutines that never acquired it", crowds, "starved", ours, "", "≤", 0, ""},
	{contended, locking, "holds that overlap", crowds, "overlaps", ours, "", "≤", 0, ""},

	{processes, servers, "hand-offs, to the best peer", "contend-4x16", "hand-offs", ours, peers, "≥", 20, ""},
	{processes, servers, "largest share of a process to smallest", "contend-4x16", "largest to smallest share of processes", ours, "", "≤", 1.3, ""},
	{processes, locking, "holds that overlap", "contend-4x16", "overlaps", ours, "", "≤", 0, ""},

	{handOff, "redis", "p50, to the bare wake-up and claim", "handoff-other", "p50", ours, bare, "≤", 1.5, ""},
	{handOff, "redis", "p50, to rueidislock", "handoff-other", "p50", ours, "rueidislock", "≤", 1, ""},
	{handOff, "etcd zookeeper", "p50, to the bare wake-up and claim", "handoff-other", "p50", ours, bare, "≤", 1.15, ""},
	{handOff, "postgres mysql", "p50, to the bare commands", "handoff-other", "p50", ours, bare, "≤", 1.1, ""},

	{inProcess, servers + " file", "p50, µs", "handoff-same", "p50", ours, "", "≤", 25, ""},

	// Many waiters may cost no more than one waiter, and many held locks no more than ten.
	{waiting, servers, "requests per second, beyond those of one", "waiters-10000", "requests", ours, "", "≤", 1, "waiters-1"},
	{waiting, servers, "connections, beyond those of one", "waiters-10000", "connections", ours, "", "≤", 0, "waiters-1"},
	{waiting, servers, "client CPU, % of a core", "waiters-10000", "client CPU", ours, "", "≤", 1, ""},
	{waiting, servers, "bytes each", "waiters-10000", "client memory", ours, "", "≤", 4096, ""},
	{held, servers, "goroutines, beyond those of 10 locks", "held-10000", "goroutines", ours, "", "≤", 5, "held-10"},
	{held, "redis", "requests in a third of the TTL", "held-10000", "requests, in a third of the TTL", ours, "", "≤", 30, ""},
	{held, "table", "requests in a third of the TTL", "held-10000", "requests, in a third of the TTL", ours, "", "≤", 20, ""},
	{held, servers, "bytes each, including 64 for the name", "held-10000", "client memory", ours, "", "≤", 1024 + 64, ""},

	{takeover, "postgres mysql file", "longest, ms", "takeover", "most", ours, "", "≤", 50, ""}, // on other families the TTL decides
}

// The outcomes of a goal, from best to worst. A goal is reached in every turn, in some, or in none.
const (
	notMeasured = "not measured"
	reached     = "yes"
	notCertain  = "not certain"
	missed      = "no"
)

var ranks = []string{notMeasured, reached, notCertain, missed}

type outcome struct {
	report.Quantiles // of the turns
	reached          string
}

// outcome evaluates a goal on the results of a family.
func (g *Goal) outcome(r *Results) outcome {
	worst := outcome{reached: notMeasured}
	for _, name := range strings.Fields(g.Scenarios) {
		each := g.values(r, name)
		if len(each) == 0 {
			continue
		}
		next := outcome{report.QuantilesOf(each), g.verdict(each)}
		rank := slices.Index(ranks, next.reached) - slices.Index(ranks, worst.reached)
		if rank > 0 || rank == 0 && (next.P50 > worst.P50) == (g.Is == "≤") {
			worst = next
		}
	}
	return worst
}

// values returns the compared values of all turns in one scenario. It omits turns in which one was not measured, except that a turn in which Ours
// failed counts as infinitely bad. A ratio compares figures of one turn, because a slow machine slows both; there is none to 0.
func (g *Goal) values(r *Results, scenario string) (each []float64) {
	isOurs := func(row measure.Row) bool { return row.Library == g.Ours }
	s := r.Scenario(scenario)
	others := g.best(s, func(row measure.Row) bool { return g.Against(row.Kind, row.Library) })
	failed := len(s.Row(g.Ours).Failed)
	if g.Beyond != "" {
		beyond := r.Scenario(g.Beyond)
		others = g.best(beyond, isOurs)
		failed += len(beyond.Row(g.Ours).Failed)
	}
	for turn, mine := range g.best(s, isOurs) {
		switch other, measured := others[turn]; {
		case g.Beyond == "" && g.To == "":
			each = append(each, mine)
		case g.Beyond != "" && measured:
			each = append(each, mine-other)
		case g.To != "" && other > 0:
			each = append(each, mine/other)
		}
	}
	worst := math.Inf(1)
	if g.Is == "≥" {
		worst = -worst
	}
	return append(each, slices.Repeat([]float64{worst}, failed)...)
}

// Against reports whether the goal compares lockport with a library, given its kind and name.
func (g *Goal) Against(kind, library string) bool {
	switch g.To {
	case bare:
		return kind == lib.Floor
	case peers:
		return kind == lib.Floor || kind == lib.Theirs
	}
	return library == g.To
}

// best returns the best figure that any of some libraries had in each turn.
func (g *Goal) best(s Scenario, counts func(measure.Row) bool) map[int]float64 {
	best := make(map[int]float64)
	for _, row := range s.Rows {
		if !counts(row) {
			continue
		}
		for i, v := range row.Figure(g.Figure).Each {
			if old, seen := best[row.Turns[i]]; !seen || (v > old) == (g.Is == "≥") {
				best[row.Turns[i]] = v
			}
		}
	}
	return best
}

func (g *Goal) verdict(each []float64) string {
	n := 0
	for _, v := range each {
		if g.Is == "≤" && v <= g.Bound || g.Is == "≥" && v >= g.Bound {
			n++
		}
	}
	switch n {
	case len(each):
		return reached
	case 0:
		return missed
	}
	return notCertain
}

// amount formats a compared value: a ratio, a difference, or the figure itself.
func (g *Goal) amount(v float64) string {
	switch {
	case g.To != "" && !math.IsInf(v, 0):
		return number(v) + "×"
	case g.Beyond != "" && v > 0:
		return "+" + number(v)
	}
	return number(v)
}

func (g *Goal) cell(o outcome) string {
	text := o.reached
	if o.reached == notMeasured {
		return text
	}
	if o.reached == missed {
		text = "**no**"
	}
	text += ": " + g.amount(o.P50)
	if o.Min < o.Max {
		text += " (" + number(o.Min) + " to " + number(o.Max) + ")"
	}
	return text
}
