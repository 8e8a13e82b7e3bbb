package goal

import "fmt"

// Rows are what goals are parts of, in the order in which they are shown.
var Rows = []string{cycle, own, contended, processes, handOff, inProcess, waiting, held, takeover}

const (
	cycle     = "uncontended cycle"
	own       = "64 goroutines, each its own name"
	contended = "one name, one process, 8 to 512 goroutines"
	processes = "one name, 4 processes of 16 goroutines"
	handOff   = "hand-off to another process"
	inProcess = "hand-off in the process"
	waiting   = "10,000 goroutines wait for one name"
	held      = "10,000 held locks"
	takeover  = "takeover after kill -9 of the holder"
)

const (
	lockport = "lockport"
	noTokens = "lockport, no tokens"
	commands = "the bare commands"
	wakeUp   = "the bare wake-up and claim"
)

// peers are the best that others offer to waiters: on the SQL servers the bare calls, which wait themselves.
var peers = map[string][]string{
	"redis": {"redislock", "redsync", "rueidislock"}, "redlock": {"redsync"}, "etcd": {"concurrency.Mutex"}, "zookeeper": {"zk.Lock"},
	"postgres": {"pg_advisory_lock"}, "mysql": {"GET_LOCK"},
}

// servers are the families with servers.
var servers = []string{"redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"}

// beside are the goals that compare one figure of one scenario with one library.
var beside = []struct {
	row, scenario, figure, family, ours, to string
	name                                    string // of to, for people; empty: to itself
	atMost, atLeast                         float64
}{
	{cycle, "cycle", "p50", "redis", lockport, "SET NX, EVALSHA", commands, 1.05, 0},
	{cycle, "cycle", "p50", "redis", lockport, "redislock", "", 1, 0},
	{cycle, "cycle", "p50", "redis", lockport, "rueidislock", "", 1, 0},
	{cycle, "cycle", "p50", "redlock", lockport, "redsync", "", 0.5, 0},
	{cycle, "cycle", "p50", "etcd", lockport, "Txn, Delete", commands, 1.05, 0},
	{cycle, "cycle", "p50", "zookeeper", lockport, "create, delete", commands, 1.15, 0},
	{cycle, "cycle", "p50", "zookeeper", lockport, "zk.Lock", "", 1, 0},
	{cycle, "cycle", "p50", "postgres", lockport, "pg_advisory_lock", commands, 1.05, 0},
	{cycle, "cycle", "p50", "mysql", noTokens, "GET_LOCK", commands, 1.05, 0},

	{own, "own-64", "cycles", "redis", lockport, "rueidislock", "", 0, 1.5},
	{own, "own-64", "cycles", "etcd", lockport, "concurrency.Mutex", "", 0, 1.8},
	{own, "own-64", "cycles", "zookeeper", lockport, "zk.Lock", "", 0, 1},
	{own, "own-64", "cycles", "postgres", lockport, "pg_advisory_lock", commands, 0, 2.5},
	{own, "own-64", "cycles", "mysql", lockport, "GET_LOCK", commands, 0, 1},
	{own, "own-64", "cycles", "mysql", noTokens, "GET_LOCK", commands, 0, 1},

	{handOff, "handoff-other", "p50", "redis", lockport, "PUBLISH, SET NX", wakeUp, 1.5, 0},
	{handOff, "handoff-other", "p50", "redis", lockport, "rueidislock", "", 1, 0},
	{handOff, "handoff-other", "p50", "etcd", lockport, "watch, Txn", wakeUp, 1.15, 0},
	{handOff, "handoff-other", "p50", "zookeeper", lockport, "exists, create", wakeUp, 1.15, 0},
	{handOff, "handoff-other", "p50", "postgres", lockport, "pg_advisory_lock", commands, 1.1, 0},
	{handOff, "handoff-other", "p50", "mysql", lockport, "GET_LOCK", commands, 1.1, 0},
}

// bound is a limit; 0 is none.
func bound(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

// All are the goals.
func All() (all []Goal) {
	for _, b := range beside {
		name := b.name
		if name == "" {
			name = b.to
		}
		all = append(all, Goal{
			ID: fmt.Sprint(b.scenario, "/", b.family, "/", b.ours, "/", b.to), Row: b.row, Family: b.family, What: b.figure + ", to " + name,
			Scenarios: []string{b.scenario}, Figure: b.figure, Ours: b.ours, To: []string{b.to}, AtMost: bound(b.atMost), AtLeast: bound(b.atLeast),
		})
	}
	add := func(row, family, what, figure string, atMost *float64, scenarios ...string) *Goal {
		all = append(all, Goal{
			ID: fmt.Sprint(row, "/", family, "/", what), Row: row, Family: family, What: what, Figure: figure, Ours: lockport, AtMost: atMost, Scenarios: scenarios,
		})
		return &all[len(all)-1]
	}
	none := new(float64)
	for _, f := range servers {
		one := []string{"contend-8", "contend-64", "contend-512"}
		g := add(contended, f, "hand-offs, to the best peer", "hand-offs", nil, one...)
		g.To, g.AtLeast = peers[f], bound(50)
		add(contended, f, "largest share, to the smallest", "largest to smallest share", bound(1.1), one...)
		add(contended, f, "goroutines that never had it", "starved", none, one...)
		g = add(processes, f, "hand-offs, to the best peer", "hand-offs", nil, "contend-4x16")
		g.To, g.AtLeast = peers[f], bound(20)
		add(processes, f, "largest share of a process, to the smallest", "largest to smallest share of processes", bound(1.3), "contend-4x16")
		add(inProcess, f, "p50, µs", "p50", bound(25), "handoff-same")

		// Waiters and held locks cost no more than one waiter, and ten held locks.
		than := func(row, what, figure, scenario, of string, beyond *float64) {
			g := add(row, f, what, figure, beyond, scenario)
			g.To, g.ToScenario, g.Beyond = []string{lockport}, of, true
		}
		than(waiting, "requests in a second, more than for one", "requests", "waiters-10000", "waiters-1", bound(1))
		than(waiting, "connections, more than for one", "connections", "waiters-10000", "waiters-1", none)
		add(waiting, f, "the client's CPU, % of a core", "client CPU", bound(1), "waiters-10000")
		add(waiting, f, "bytes each", "client memory", bound(4096), "waiters-10000")
		than(held, "goroutines, more than for 10", "goroutines", "held-10000", "held-10", bound(5))
		if f == "redis" {
			add(held, f, "requests in a third of the TTL", "requests, in a third of the TTL", bound(30), "held-10000")
		}
		add(held, f, "bytes each, 64 of them the name's", "client memory", bound(1024+64), "held-10000")
	}
	add(inProcess, "file", "p50, µs", "p50", bound(25), "handoff-same")
	for _, f := range []string{"postgres", "mysql", "file"} { // elsewhere the TTL decides
		add(takeover, f, "most, ms", "most", bound(50), "takeover")
	}
	return all
}
