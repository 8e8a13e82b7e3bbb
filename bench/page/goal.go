package page

import (
	"math"
	"slices"
	"strings"
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
	// To are the libraries to compare with, by family; the best of them counts in each turn. Nil: the bound is on the figure itself.
	To map[string][]string
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

// peers are the best alternatives for waiters. On the SQL servers they are the bare calls, which wait themselves.
var peers = map[string][]string{
	"redis": {"redislock", "redsync", "rueidislock"}, "redlock": {"redsync"}, "etcd": {"concurrency.Mutex"}, "zookeeper": {"zk.Lock"},
	"postgres": {"pg_advisory_lock"}, "mysql": {"GET_LOCK"},
}

var bare = map[string][]string{
	"redis": {"SET NX, EVALSHA"}, "etcd": {"Txn, Delete"}, "zookeeper": {"create, delete"}, "postgres": {"pg_advisory_lock"}, "mysql": {"GET_LOCK"},
	"table": {"INSERT, UPDATE"}, "nats": {"publish twice"},
}

var wakeUp = map[string][]string{"redis": {"PUBLISH, SET NX"}, "etcd": {"watch, Txn"}, "zookeeper": {"exists, create"}}

func to(family, library string) map[string][]string { return map[string][]string{family: {library}} }

// Goals are lockport's goals, in display order.
var Goals = []Goal{
	{cycle, "redis etcd postgres", "p50, to the bare commands", "cycle", "p50", ours, bare, "≤", 1.05, ""},
	{cycle, "redis", "p50, to redislock", "cycle", "p50", ours, to("redis", "redislock"), "≤", 1, ""},
	{cycle, "redis", "p50, to rueidislock", "cycle", "p50", ours, to("redis", "rueidislock"), "≤", 1, ""},
	{cycle, "redlock", "p50, to redsync", "cycle", "p50", ours, to("redlock", "redsync"), "≤", 0.5, ""},
	{cycle, "zookeeper", "p50, to the bare commands", "cycle", "p50", ours, bare, "≤", 1.15, ""},
	{cycle, "table nats", "p50, to the bare statements or requests", "cycle", "p50", ours, bare, "≤", 1.15, ""},
	{cycle, "zookeeper", "p50, to zk.Lock", "cycle", "p50", ours, to("zookeeper", "zk.Lock"), "≤", 1, ""},
	{cycle, "mysql", "p50, to the bare commands (no tokens)", "cycle", "p50", noTokens, bare, "≤", 1.05, ""},

	{own, "redis", "cycles, to rueidislock", "own-64", "cycles", ours, to("redis", "rueidislock"), "≥", 1.5, ""},
	{own, "etcd", "cycles, to concurrency.Mutex", "own-64", "cycles", ours, to("etcd", "concurrency.Mutex"), "≥", 1.8, ""},
	{own, "zookeeper", "cycles, to zk.Lock", "own-64", "cycles", ours, to("zookeeper", "zk.Lock"), "≥", 1, ""},
	{own, "postgres", "cycles, to the bare commands", "own-64", "cycles", ours, bare, "≥", 2.5, ""},
	{own, "mysql", "cycles, to the bare commands", "own-64", "cycles", ours, bare, "≥", 1, ""},
	{own, "mysql", "cycles, to the bare commands (no tokens)", "own-64", "cycles", noTokens, bare, "≥", 1, ""},

	{contended, servers, "hand-offs, to the best peer", crowds, "hand-offs", ours, peers, "≥", 50, ""},
	{contended, servers, "largest share to smallest", crowds, "largest to smallest share", ours, nil, "≤", 1.1, ""},
	{contended, servers, "goroutines that never acquired it", crowds, "starved", ours, nil, "≤", 0, ""},
	{contended, locking, "holds that overlap", crowds, "overlaps", ours, nil, "≤", 0, ""},

	{processes, servers, "hand-offs, to the best peer", "contend-4x16", "hand-offs", ours, peers, "≥", 20, ""},
	{processes, servers, "largest share of a process to smallest", "contend-4x16", "largest to smallest share of processes", ours, nil, "≤", 1.3, ""},
	{processes, locking, "holds that overlap", "contend-4x16", "overlaps", ours, nil, "≤", 0, ""},

	{handOff, "redis", "p50, to the bare wake-up and claim", "handoff-other", "p50", ours, wakeUp, "≤", 1.5, ""},
	{handOff, "redis", "p50, to rueidislock", "handoff-other", "p50", ours, to("redis", "rueidislock"), "≤", 1, ""},
	{handOff, "etcd zookeeper", "p50, to the bare wake-up and claim", "handoff-other", "p50", ours, wakeUp, "≤", 1.15, ""},
	{handOff, "postgres mysql", "p50, to the bare commands", "handoff-other", "p50", ours, bare, "≤", 1.1, ""},

	{inProcess, servers + " file", "p50, µs", "handoff-same", "p50", ours, nil, "≤", 25, ""},

	// Many waiters may cost no more than one waiter, and many held locks no more than ten.
	{waiting, servers, "requests per second, beyond those of one", "waiters-10000", "requests", ours, nil, "≤", 1, "waiters-1"},
	{waiting, servers, "connections, beyond those of one", "waiters-10000", "connections", ours, nil, "≤", 0, "waiters-1"},
	{waiting, servers, "client CPU, % of a core", "waiters-10000", "client CPU", ours, nil, "≤", 1, ""},
	{waiting, servers, "bytes each", "waiters-10000", "client memory", ours, nil, "≤", 4096, ""},
	{held, servers, "goroutines, beyond those of 10 locks", "held-10000", "goroutines", ours, nil, "≤", 5, "held-10"},
	{held, "redis", "requests in a third of the TTL", "held-10000", "requests, in a third of the TTL", ours, nil, "≤", 30, ""},
	{held, "table", "requests in a third of the TTL", "held-10000", "requests, in a third of the TTL", ours, nil, "≤", 20, ""},
	{held, servers, "bytes each, including 64 for the name", "held-10000", "client memory", ours, nil, "≤", 1024 + 64, ""},

	{takeover, "postgres mysql file", "longest, ms", "takeover", "most", ours, nil, "≤", 50, ""}, // on other families the TTL decides
}

// The outcomes of a goal, from best to worst. A goal is reached in every turn, in some, or in none.
const (
	notMeasured = "not measured"
	reached     = "yes"
	notCertain  = "not certain"
	missed      = "no"
)

var ranks = []string{notMeasured, reached, notCertain, missed}

// outcome is the outcome of a goal in a run.
type outcome struct {
	spread
	reached string
}

// outcome evaluates a goal on a family.
func (g *Goal) outcome(family string, r *Results) outcome {
	worst := outcome{reached: notMeasured}
	for _, name := range strings.Fields(g.Scenarios) {
		each := g.values(r, family, name)
		if len(each) == 0 {
			continue
		}
		next := outcome{spreadOf(each), g.verdict(each)}
		rank := slices.Index(ranks, next.reached) - slices.Index(ranks, worst.reached)
		if rank > 0 || rank == 0 && (next.median > worst.median) == (g.Is == "≤") {
			worst = next
		}
	}
	return worst
}

// values returns the compared values of all turns in one scenario. It omits turns in which one was not measured, except that a turn in which Ours
// failed counts as infinitely bad. A ratio compares figures of one turn, because a slow machine slows both; there is none to 0.
func (g *Goal) values(r *Results, family, scenario string) (each []float64) {
	s := r.Scenario(scenario)
	others := g.best(s, g.To[family])
	failed := len(s.Row(g.Ours).Failed)
	if g.Beyond != "" {
		beyond := r.Scenario(g.Beyond)
		others = g.best(beyond, []string{g.Ours})
		failed += len(beyond.Row(g.Ours).Failed)
	}
	for turn, mine := range g.best(s, []string{g.Ours}) {
		switch other, measured := others[turn]; {
		case g.Beyond == "" && g.To == nil:
			each = append(each, mine)
		case g.Beyond != "" && measured:
			each = append(each, mine-other)
		case g.To != nil && other > 0:
			each = append(each, mine/other)
		}
	}
	worst := math.Inf(1)
	if g.Is == "≥" {
		worst = -worst
	}
	return append(each, slices.Repeat([]float64{worst}, failed)...)
}

// best returns the best figure that any of the libraries had in each turn.
func (g *Goal) best(s Scenario, libraries []string) map[int]float64 {
	best := make(map[int]float64)
	for _, l := range libraries {
		row := s.Row(l)
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
	case g.To != nil && !math.IsInf(v, 0):
		return number(v) + "×"
	case g.Beyond != "" && v > 0:
		return "+" + number(v)
	}
	return number(v)
}

// cell returns the page's cell for an outcome.
func (g *Goal) cell(o outcome) string {
	text := o.reached
	if o.reached == notMeasured {
		return text
	}
	if o.reached == missed {
		text = "**no**"
	}
	return text + ": " + between(g.amount(o.median), o.spread)
}
