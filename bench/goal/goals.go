package goal

import (
	"cmp"
	"fmt"
)

// Rows are what goals are parts of, in the order in which they are shown.
var Rows = []string{
	cycle, allocations, own, contended, processes, handOff, inProcess, waiting, held, takeover, growth,
}

const (
	cycle       = "uncontended cycle"
	allocations = "allocations of a cycle"
	own         = "64 goroutines, each its own name"
	contended   = "one name, one process, 8 to 512 goroutines"
	processes   = "one name, 4 processes of 16 goroutines"
	handOff     = "hand-off to another process"
	inProcess   = "hand-off in the process"
	waiting     = "10,000 goroutines wait for one name"
	held        = "10,000 held locks"
	takeover    = "takeover after kill -9 of the holder"
	growth      = "growth"
)

const (
	lockport  = "lockport"
	noHandOff = "lockport, no hand-off"
	noTokens  = "lockport, no tokens"

	redisFloor = "SET NX, EVALSHA"
	etcdFloor  = "Txn, Delete"
	zkFloor    = "create, delete"
	pgFloor    = "pg_advisory_lock"
	mysqlFloor = "GET_LOCK"
)

// peers are the best that others offer to those who wait: on the SQL servers the bare calls, which wait themselves.
var peers = map[string][]string{
	"redis": {"redislock", "redsync", "rueidislock"}, "redlock": {"redsync"}, "etcd": {"concurrency.Mutex"}, "zookeeper": {"zk.Lock"},
	"postgres": {pgFloor}, "mysql": {mysqlFloor},
}

// bare is what the bare commands are called wherever one goal is that of several families.
var bare = map[string]string{
	redisFloor: commands, etcdFloor: commands, zkFloor: commands, pgFloor: commands, mysqlFloor: commands,
	"PUBLISH, SET NX": wakeUp, "watch, Txn": wakeUp, "exists, create": wakeUp,
}

const (
	commands = "the bare commands"
	wakeUp   = "the bare wake-up and claim"
)

// servers are the families with servers.
var servers = []string{"redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"}

func most(v float64) *float64  { return &v }
func least(v float64) *float64 { return &v }

// All are the goals.
func All() (all []Goal) {
	add := func(g Goal, scenarios ...string) {
		if g.Ours == "" {
			g.Ours = lockport
		}
		g.Scenarios = scenarios
		all = append(all, g)
	}
	beside := func(row, scenario, figure string) func(family, id, ours, to string, atMost, atLeast *float64) {
		return func(family, id, ours, to string, atMost, atLeast *float64) {
			add(Goal{
				ID: fmt.Sprint(scenario, "/", family, "/", id), Row: row, Family: family, What: figure + ", to " + cmp.Or(bare[to], to), Figure: figure, Ours: ours, To: []string{to},
				AtMost: atMost, AtLeast: atLeast,
			}, scenario)
		}
	}

	c := beside(cycle, "cycle", "p50")
	c("redis", "floor", lockport, redisFloor, most(1.05), nil)
	c("redis", "redislock", lockport, "redislock", most(1), nil)
	c("redis", "rueidislock", lockport, "rueidislock", most(1), nil)
	c("redlock", "redsync", lockport, "redsync", most(0.5), nil)
	c("etcd", "floor", lockport, etcdFloor, most(1.05), nil)
	c("zookeeper", "floor", lockport, zkFloor, most(1.15), nil)
	c("zookeeper", "zk.Lock", lockport, "zk.Lock", most(1), nil)
	c("postgres", "floor", lockport, pgFloor, most(1.05), nil)
	c("mysql", "floor", noTokens, mysqlFloor, most(1.05), nil)

	add(Goal{
		ID: "allocations/redis", Row: allocations, Family: "redis", What: "allocations, more than the bare commands", Figure: "allocations", To: []string{redisFloor},
		Beyond: true, AtMost: most(10),
	}, "cycle")

	o := beside(own, "own-64", "cycles")
	o("redis", "rueidislock", lockport, "rueidislock", nil, least(1.5))
	o("etcd", "Mutex", lockport, "concurrency.Mutex", nil, least(1.8))
	o("zookeeper", "zk.Lock", lockport, "zk.Lock", nil, least(1))
	o("postgres", "floor", lockport, pgFloor, nil, least(2.5))
	o("mysql", "floor", lockport, mysqlFloor, nil, least(1))
	o("mysql", "floor-no-tokens", noTokens, mysqlFloor, nil, least(1))

	for _, f := range servers {
		one := []string{"contend-8", "contend-64", "contend-512"}
		add(Goal{
			ID: "contend/" + f + "/hand-offs", Row: contended, Family: f, What: "hand-offs, to the best peer", Figure: "hand-offs", To: peers[f], AtLeast: least(50),
		}, one...)
		add(Goal{
			ID: "contend/" + f + "/shares", Row: contended, Family: f, What: "largest share, to the smallest", Figure: "largest to smallest share", AtMost: most(1.1),
		}, one...)
		add(Goal{ID: "contend/" + f + "/starved", Row: contended, Family: f, What: "goroutines that never had it", Figure: "starved", AtMost: most(0)}, one...)
	}

	add(Goal{
		ID: "contend-4x16/redis/rueidislock", Row: processes, Family: "redis", What: "hand-offs, to rueidislock", Figure: "hand-offs", To: []string{"rueidislock"},
		AtLeast: least(20),
	}, "contend-4x16")
	add(Goal{
		ID: "contend-4x16/redis/longest", Row: processes, Family: "redis", What: "longest wait, to " + noHandOff, Figure: "longest wait", To: []string{noHandOff},
		AtMost: most(1),
	}, "contend-4x16")
	for _, f := range servers {
		add(Goal{
			ID: "contend-4x16/" + f + "/hand-offs", Row: processes, Family: f, What: "hand-offs, to the best peer", Figure: "hand-offs", To: peers[f],
			AtLeast: least(20),
		}, "contend-4x16")
		add(Goal{
			ID: "contend-4x16/" + f + "/shares", Row: processes, Family: f, What: "largest share of a process, to the smallest",
			Figure: "largest to smallest share of processes", AtMost: most(1.3),
		}, "contend-4x16")
	}

	h := beside(handOff, "handoff-other", "p50")
	h("redis", "floor", lockport, "PUBLISH, SET NX", most(1.5), nil)
	h("redis", "rueidislock", lockport, "rueidislock", most(1), nil)
	h("etcd", "floor", lockport, "watch, Txn", most(1.15), nil)
	add(Goal{ID: "handoff-other/etcd/p99", Row: handOff, Family: "etcd", What: "p99, µs", Figure: "p99", AtMost: most(5000)}, "handoff-other")
	h("zookeeper", "floor", lockport, "exists, create", most(1.15), nil)
	h("postgres", "floor", lockport, pgFloor, most(1.1), nil)
	h("mysql", "floor", lockport, mysqlFloor, most(1.1), nil)

	for _, f := range append([]string{"file"}, servers...) {
		add(Goal{ID: "handoff-same/" + f, Row: inProcess, Family: f, What: "p50, µs", Figure: "p50", AtMost: most(25)}, "handoff-same")
	}
	idle(add)
	for _, f := range []string{"postgres", "mysql", "file"} { // elsewhere the TTL decides
		add(Goal{ID: "takeover/" + f, Row: takeover, Family: f, What: "most, ms", Figure: "most", AtMost: most(50)}, "takeover")
	}
	return all
}

// idle are the goals of what costs next to nothing.
func idle(add func(g Goal, scenarios ...string)) {
	for _, f := range servers {
		than := func(id, row, scenario, of, what, figure string, beyond bool, bound float64) {
			add(Goal{
				ID: id + "/" + f, Row: row, Family: f, What: what, Figure: figure, To: []string{lockport}, ToScenario: of, Beyond: beyond, AtMost: &bound,
			}, scenario)
		}
		than("waiters-requests", waiting, "waiters-10000", "waiters-1", "requests in a second, more than for one", "requests", true, 1)
		than("waiters-connections", waiting, "waiters-10000", "waiters-1", "connections, more than for one", "connections", true, 0)
		add(Goal{ID: "waiters-cpu/" + f, Row: waiting, Family: f, What: "the client's CPU, % of a core", Figure: "client CPU", AtMost: most(1)}, "waiters-10000")
		add(Goal{ID: "waiters-memory/" + f, Row: waiting, Family: f, What: "bytes each", Figure: "client memory", AtMost: most(4096)}, "waiters-10000")

		than("held-goroutines", held, "held-10000", "held-10", "goroutines, more than for 10", "goroutines", true, 5)
		switch f {
		case "redis":
			add(Goal{
				ID: "held-requests/redis", Row: held, Family: f, What: "requests in a third of the TTL", Figure: "requests, in a third of the TTL", AtMost: most(30),
			}, "held-10000")
		case "postgres", "mysql":
			add(Goal{ID: "held-connections/" + f, Row: held, Family: f, What: "connections", Figure: "connections", AtMost: most(1)}, "held-10000")
		}
		add(Goal{ID: "held-memory/" + f, Row: held, Family: f, What: "bytes each, 64 of them the name's", Figure: "client memory", AtMost: most(1024 + 64)}, "held-10000")
	}
	for _, f := range servers {
		for _, grown := range []struct {
			id, what, figure string
			bound            float64
		}{
			{"client", "client memory of a lock, 10,000 to 10", "client memory", 1.5},
			{"requests", "requests in all, 10,000 to 10: for each, a thousandth", "requests", 1.5 * 1000},
		} {
			add(Goal{
				ID: "growth-" + grown.id + "/" + f, Row: growth, Family: f, What: grown.what, Figure: grown.figure, To: []string{lockport}, ToScenario: "held-10",
				AtMost: &grown.bound,
			}, "held-10000")
		}
	}
}
