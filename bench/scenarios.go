package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/page"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// plan is for how long, and with how many, scenarios are measured.
type plan struct {
	cycle   time.Duration // for each turn of uncontended cycles
	contend time.Duration // for each turn of contention
	handOff int           // samples in a turn
	waiters []int
	held    []int
	limit   time.Duration // how long a turn may take: some libraries never come back from a request that took too long
}

var full = plan{600 * time.Millisecond, 800 * time.Millisecond, 20, []int{1, 1000, 10000}, []int{10, 10000}, time.Minute}

// quick shows that all works.
var quick = plan{100 * time.Millisecond, 300 * time.Millisecond, 3, []int{1, 30, 100}, []int{10, 300}, 30 * time.Second}

const (
	ttl           = 15 * time.Second      // lockport's default
	waitedTTL     = 60 * time.Second      // of what is to stay while it is waited for
	heldTTL       = 3 * time.Second       // requests of held locks are counted for as long
	deadTTL       = 2 * time.Second       // of a holder that is killed
	grace         = 2 * time.Second       // that those who still wait at the end of contention have
	idleTime      = time.Second           // for which requests of waiters are counted
	pause         = 30 * time.Millisecond // how long a hold of a hand-off lasts at least
	mostCycles    = 400_000               // that are noted of a turn: more than any library makes
	countedCycles = 50                    // that are made through proxies that count their requests
	takeoverLocks = 4                     // of a process that is killed: no more than lockport waits for in a SQL server's own queue
	fewestTurns   = 5                     // that the page has at least; kills come at so many moments of the period of renewals
)

// scenario is what is measured.
type scenario struct {
	name, title string
	takes       func(l lib.Library) bool // whether a library takes part
	// n waiters or held locks are asked of a library, for which they may be more than most.
	n       int
	most    func(l lib.Library) int
	measure func(ctx context.Context, e *entry, turn int) ([]page.Figure, error)
}

// scenarios are all, in the order in which they are measured.
func scenarios(p plan) []scenario {
	anybody := func(lib.Library) bool { return true }
	waits := func(l lib.Library) bool { return l.Waits }
	// A session holds the locks of the bare commands, and libraries have one as well.
	holds := func(l lib.Library) bool { return l.Kind != lib.Floor }
	all := []scenario{
		{"cycle", "one goroutine takes a name and releases it, that nobody else wants", anybody, 0, nil, cycles(1)},
		{"own-64", "64 goroutines, each its own name", anybody, 0, nil, cycles(64)},
		{"contend-8", "8 goroutines, one name", waits, 0, nil, contend(1, 8)},
		{"contend-64", "64 goroutines, one name", waits, 0, nil, contend(1, 64)},
		{"contend-512", "512 goroutines, one name", waits, 0, nil, contend(1, 512)},
		{"contend-4x16", "4 processes of 16 goroutines, one name", waits, 0, nil, contend(4, 16)},
		{"handoff-other", "from a release to the grant of a waiter in another process", waits, 0, nil, handOff(2)},
		{"handoff-same", "from a release to the grant of a waiter in the same process", waits, 0, nil, handOff(1)},
		{"takeover", "from the kill -9 of a holder to the grant of a waiter in another process", waits, 0, nil, takeover},
	}
	for _, n := range p.waiters {
		title := fmt.Sprint(n, " goroutines of one process, waiting for a name that another process has")
		if n == 1 {
			title = "one goroutine, waiting for a name that another process has"
		}
		most := func(l lib.Library) int { return l.MostWaiters }
		all = append(all, scenario{fmt.Sprint("waiters-", n), title, few(n, waits), n, most, waiters(n)})
	}
	for _, n := range p.held {
		title := fmt.Sprint(n, " locks of one process, held and renewed")
		most := func(l lib.Library) int { return l.MostHeld }
		all = append(all, scenario{fmt.Sprint("held-", n), title, few(n, holds), n, most, held(n)})
	}
	return all
}

// few leaves other libraries out where so few are measured that only our own growth is looked at.
func few(n int, takes func(lib.Library) bool) func(lib.Library) bool {
	return func(l lib.Library) bool { return takes(l) && (n > 10 || l.Kind == lib.Ours) }
}

// cycles measures goroutines that are in nobody's way.
func cycles(goroutines int) func(context.Context, *entry, int) ([]page.Figure, error) {
	return func(ctx context.Context, e *entry, _ int) ([]page.Figure, error) {
		if _, err := e.start(ctx, 1); err != nil {
			return nil, err
		}
		o := measure.CycleOptions{Name: e.name, Goroutines: goroutines, Most: mostCycles / goroutines, For: e.cycle, Try: e.lib.Kind == lib.Floor}
		before, _ := e.servers.Load()
		c, err := e.workers.Cycle(ctx, o)
		after, _ := e.servers.Load()
		if err != nil {
			return nil, err
		}
		n := float64(len(c.Both))
		figures := append(latencies(c.Both)[:2], page.More("cycles", "/s", n/c.Took.Seconds()))
		if goroutines == 1 {
			requests, err := requests(ctx, e, o)
			if err != nil {
				return nil, err
			}
			figures = append(figures, page.Less("requests", "each", requests))
		}
		return append(figures,
			page.Less("allocations", "each", float64(c.Allocs)/n),
			page.Less("allocated", "B each", float64(c.Allocated)/n),
			page.Less("client CPU", "µs each", micros(c.CPU)/n),
			page.Less("server CPU", "µs each", micros(after-before)/(n+float64(measure.Warm*goroutines))),
		), nil
	}
}

// requests is how many requests a cycle needs: what reaches the server in one piece.
func requests(ctx context.Context, e *entry, o measure.CycleOptions) (float64, error) {
	through, links, err := faultproxy.ForURL(e.servers.URL)
	if err != nil {
		return 0, err
	}
	defer links.Close()
	c := e.config(ttl)
	c.URL = through
	w, err := measure.Start(ctx, c, 1)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	o.For = time.Minute
	var counts [2]int64
	for i, most := range []int{1, countedCycles} { // the first cycle connects
		if o.Most = most; err == nil {
			_, err = w.Cycle(ctx, o)
		}
		counts[i] = links.Requests()
	}
	return float64(counts[1]-counts[0]) / (countedCycles + measure.Warm), err
}

// contend measures many who want one name.
func contend(processes, goroutines int) func(context.Context, *entry, int) ([]page.Figure, error) {
	return func(ctx context.Context, e *entry, turn int) ([]page.Figure, error) {
		clients := processes * goroutines
		fresh, err := e.start(ctx, processes)
		if err == nil && fresh { // everybody has a connection, or a session, when it begins
			_, err = e.workers.Contend(ctx, e.name+"-first", clients, e.contend/3, grace)
		}
		if err != nil {
			return nil, err
		}
		before, _ := e.servers.Load()
		c, err := e.workers.Contend(ctx, fmt.Sprint(e.name, "-", turn), clients, e.contend, grace)
		after, _ := e.servers.Load()
		if err == nil && c.Holds == 0 {
			err = errors.New("nobody had the lock")
		}
		if err != nil {
			return nil, err
		}
		holds := float64(c.Holds)
		figures := []page.Figure{
			page.More("acquisitions", "/s", holds/e.contend.Seconds()),
			page.More("hand-offs", "/s", float64(c.Changes)/e.contend.Seconds()),
			page.Less("longest wait", "ms", micros(c.Longest)/1000),
			page.Less("starved", "goroutines", float64(c.Starved)),
			page.Less("overlaps", "holds", float64(c.Overlaps)),
			page.Less("largest to smallest share", "×", shares(c.Clients)),
		}
		if processes > 1 {
			figures = append(figures, page.Less("largest to smallest share of processes", "×", shares(c.Processes)))
		}
		return append(figures, page.Less("client CPU", "µs each", micros(c.CPU)/holds), page.Less("server CPU", "µs each", micros(after-before)/holds)), nil
	}
}

// shares is the ratio of the largest to the smallest, which counts as one at least.
func shares(counts []int) float64 {
	return float64(slices.Max(counts)) / float64(max(1, slices.Min(counts)))
}

// handOff measures hand-offs, to another process or to a goroutine of the same one.
func handOff(processes int) func(context.Context, *entry, int) ([]page.Figure, error) {
	return func(ctx context.Context, e *entry, turn int) ([]page.Figure, error) {
		if _, err := e.start(ctx, processes); err != nil {
			return nil, err
		}
		times, err := e.workers.HandOff(ctx, fmt.Sprint(e.name, "-", turn), e.handOff, pause)
		if err != nil {
			return nil, err
		}
		return latencies(times), nil
	}
}

// latencies are what is told of some times, in microseconds.
func latencies(times []float64) []page.Figure {
	slices.Sort(times)
	n := len(times)
	return []page.Figure{page.Less("p50", "µs", times[n/2]), page.Less("p99", "µs", times[n*99/100]), page.Less("most", "µs", times[n-1])}
}

// takeover kills a holder, each time at another moment of its period of renewals.
func takeover(ctx context.Context, e *entry, turn int) ([]page.Figure, error) {
	c := e.config(deadTTL)
	c.Loop = true
	times, err := measure.Takeover(ctx, c, measure.TakeoverOptions{
		Name: fmt.Sprint(e.name, "-", turn), Locks: takeoverLocks, Waiters: 1, Turn: turn % fewestTurns, Turns: fewestTurns,
	})
	if err != nil {
		return nil, err
	}
	return []page.Figure{
		page.Less("p50", "ms", report.SpreadOf(times).Median), page.Less("most", "ms", slices.Max(times)),
		{Name: "TTL", Unit: "ms", Each: []float64{micros(deadTTL) / 1000}},
	}, nil
}

// waiters measures n who wait for a name that another process has. Each turn has workers of its own, since waiters wait until their process ends.
func waiters(n int) func(context.Context, *entry, int) ([]page.Figure, error) {
	return func(ctx context.Context, e *entry, turn int) ([]page.Figure, error) {
		o := measure.IdleOptions{Name: fmt.Sprint(e.name, "-", turn), Waiters: n, For: idleTime, Server: e.servers.Load, Kill: true}
		i, err := measure.MeasureIdle(ctx, e.config(waitedTTL), o)
		return append([]page.Figure{page.Less("requests", "/s", i.Requests)}, idle(i, n)...), err
	}
}

// held measures n locks that are held. Each turn has a worker of its own.
func held(n int) func(context.Context, *entry, int) ([]page.Figure, error) {
	return func(ctx context.Context, e *entry, turn int) ([]page.Figure, error) {
		c := e.config(heldTTL)
		c.Loop = true
		i, err := measure.MeasureIdle(ctx, c, measure.IdleOptions{Name: fmt.Sprint(e.name, "-", turn), Held: n, For: heldTTL, Server: e.servers.Load})
		return append([]page.Figure{
			page.Less("requests", "/s", i.Requests),
			// Locks are renewed at a third of the TTL, unless their library does otherwise.
			page.Less("requests, in a third of the TTL", "", i.Requests*heldTTL.Seconds()/3),
		}, idle(i, n)...), err
	}
}

// idle is what is told of n locks held, or waiters, beside their requests.
func idle(i measure.Idle, n int) []page.Figure {
	return []page.Figure{
		page.Less("connections", "", float64(i.Connections)),
		page.Less("client CPU", "% of a core", 100*i.ClientCPU),
		page.Less("server CPU", "% of a core", 100*i.ServerCPU),
		page.Less("goroutines", "", float64(i.Goroutines)),
		page.Less("client memory", "B each", float64(i.Memory)/float64(n)),
		page.Less("server memory", "B each", float64(i.Server)/float64(n)),
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
