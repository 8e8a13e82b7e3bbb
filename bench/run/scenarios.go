package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// place is where a library is measured.
type place struct {
	Plan
	stage *stage.Stage
	lib   lib.Library
	name  string // the beginning of its locks' names
}

func (p place) config(ttl time.Duration) measure.Config {
	return measure.Config{URL: p.stage.URL, TTL: ttl, Family: p.lib.Family, Library: p.lib.Name}
}

// turn measures a library once. n is the number of the turn.
type turn func(ctx context.Context, n int) ([]result.Value, error)

// opener gets a library ready for its turns. end is called after the last one, also after an error.
type opener func(ctx context.Context, at place) (play turn, end func(), err error)

const (
	// mostCycles is how many are noted of a turn: more than any library makes.
	mostCycles = 400_000
	// countedCycles is how many are made through proxies that count their requests.
	countedCycles = 50
)

// cycles measures goroutines that are in nobody's way.
func cycles(goroutines int) opener {
	return func(ctx context.Context, at place) (turn, func(), error) {
		try := at.lib.Kind == lib.Floor
		o := measure.CycleOptions{Name: at.name, Goroutines: goroutines, Most: mostCycles / goroutines, For: at.Cycle, Try: try}
		w, err := measure.Start(ctx, at.config(ttl), 1)
		if err != nil {
			return nil, func() {}, err
		}
		return func(ctx context.Context, _ int) ([]result.Value, error) {
			before, _, err := at.stage.Load(ctx)
			if err != nil {
				return nil, err
			}
			c, err := w.Cycle(ctx, o)
			if err != nil {
				return nil, err
			}
			after, _, err := at.stage.Load(ctx)
			if err != nil {
				return nil, err
			}
			n := float64(len(c.Both))
			values := append(latencies(c.Both)[:2], result.More("cycles", "/s", n/c.Took.Seconds()))
			if goroutines == 1 {
				requests, err := requests(ctx, at, o)
				if err != nil {
					return nil, err
				}
				values = append(values, result.Less("requests", "each", requests))
			}
			return append(values,
				result.Less("allocations", "each", float64(c.Allocs)/n),
				result.Less("allocated", "B each", float64(c.Allocated)/n),
				result.Less("client CPU", "µs each", micros(c.CPU)/n),
				result.Less("server CPU", "µs each", micros(after-before)/(n+float64(measure.Warm*goroutines))),
			), nil
		}, w.Close, nil
	}
}

// requests is how many requests a cycle needs: what reaches the server in one piece.
func requests(ctx context.Context, at place, o measure.CycleOptions) (float64, error) {
	through, links, err := faultproxy.ForURL(at.stage.URL)
	if err != nil {
		return 0, err
	}
	defer links.Close()
	c := at.config(ttl)
	c.URL = through
	w, err := measure.Start(ctx, c, 1)
	if err != nil {
		return 0, err
	}
	defer w.Close()
	o.For = time.Minute
	var counts []int64
	for _, o.Most = range []int{1, countedCycles} { // the first cycle connects
		if _, err := w.Cycle(ctx, o); err != nil {
			return 0, err
		}
		counts = append(counts, links.Requests())
	}
	return float64(counts[1]-counts[0]) / (countedCycles + measure.Warm), nil
}

// contend measures many who want one name.
func contend(processes, goroutines int) opener {
	return func(ctx context.Context, at place) (turn, func(), error) {
		w, err := measure.Start(ctx, at.config(ttl), processes)
		if err != nil {
			return nil, func() {}, err
		}
		clients := processes * goroutines
		// Everybody has a connection, or a session, when it begins.
		_, err = w.Contend(ctx, at.name+"-first", clients, at.Contend/3, at.Grace)
		return func(ctx context.Context, n int) ([]result.Value, error) {
			before, _, err := at.stage.Load(ctx)
			if err != nil {
				return nil, err
			}
			c, err := w.Contend(ctx, fmt.Sprint(at.name, "-", n), clients, at.Contend, at.Grace)
			if err == nil && c.Holds == 0 {
				err = errors.New("nobody had the lock")
			}
			if err != nil {
				return nil, err
			}
			after, _, err := at.stage.Load(ctx)
			if err != nil {
				return nil, err
			}
			holds := float64(c.Holds)
			values := []result.Value{
				result.More("acquisitions", "/s", holds/at.Contend.Seconds()),
				result.More("hand-offs", "/s", float64(c.Changes)/at.Contend.Seconds()),
				result.Less("longest wait", "ms", millis(c.Longest)),
				result.Less("starved", "goroutines", float64(c.Starved)),
				result.Less("overlaps", "holds", float64(c.Overlaps)),
				result.Less("largest to smallest share", "×", shares(c.Clients)),
			}
			if processes > 1 {
				values = append(values, result.Less("largest to smallest share of processes", "×", shares(c.Processes)))
			}
			return append(values,
				result.Less("client CPU", "µs each", micros(c.CPU)/holds),
				result.Less("server CPU", "µs each", micros(after-before)/holds),
			), nil
		}, w.Close, err
	}
}

// shares is the ratio of the largest to the smallest, which counts as one at least.
func shares(counts []int) float64 {
	return float64(slices.Max(counts)) / float64(max(1, slices.Min(counts)))
}

// pause is how long a hold of a hand-off lasts at least.
const pause = 30 * time.Millisecond

// handOff measures hand-offs, to another process or to a goroutine of the same one.
func handOff(processes int) opener {
	return func(ctx context.Context, at place) (turn, func(), error) {
		w, err := measure.Start(ctx, at.config(ttl), processes)
		if err != nil {
			return nil, func() {}, err
		}
		pass := w.HandOff
		if processes == 1 {
			pass = w.HandOffInside
		}
		return func(ctx context.Context, n int) ([]result.Value, error) {
			times, err := pass(ctx, fmt.Sprint(at.name, "-", n), at.HandOff, pause)
			if err != nil {
				return nil, err
			}
			return latencies(times), nil
		}, w.Close, nil
	}
}

// latencies are what is told of some times, in microseconds.
func latencies(times []float64) []result.Value {
	slices.Sort(times)
	n := len(times)
	return []result.Value{result.Less("p50", "µs", times[n/2]), result.Less("p99", "µs", times[n*99/100]), result.Less("most", "µs", times[n-1])}
}

// takeoverLocks is how many locks a process has that is killed: no more than lockport waits for in a SQL server's own queue.
const takeoverLocks = 4

// takeover kills a holder, each time at another moment of its period of renewals.
func takeover(_ context.Context, at place) (turn, func(), error) {
	return func(ctx context.Context, n int) ([]result.Value, error) {
		c := at.config(at.DeadTTL)
		c.Loop = true
		times, err := measure.Takeover(ctx, c, measure.TakeoverOptions{
			Name: fmt.Sprint(at.name, "-", n), Locks: takeoverLocks, Waiters: 1, Turn: n % fewestTurns, Turns: fewestTurns,
		})
		if err != nil {
			return nil, err
		}
		return []result.Value{
			result.Less("p50", "ms", report.SpreadOf(times).Median), result.Less("most", "ms", slices.Max(times)), result.Plain("TTL", "ms", millis(at.DeadTTL)),
		}, nil
	}, func() {}, nil
}

// fewestTurns is how many the page has: kills come at so many moments of the period of renewals.
const fewestTurns = 5

// waiters measures n who wait for a name that another process has. Each turn has workers of its own, since waiters wait until their process ends.
func waiters(n int) opener {
	return func(_ context.Context, at place) (turn, func(), error) {
		return func(ctx context.Context, turn int) ([]result.Value, error) {
			i, err := measure.MeasureIdle(ctx, at.config(longTTL), measure.IdleOptions{
				Name: fmt.Sprint(at.name, "-", turn), Waiters: n, For: at.Idle, Server: at.stage.Load, Kill: true,
			})
			return append([]result.Value{result.Less("requests", "/s", i.Requests)}, idle(i, n)...), err
		}, func() {}, nil
	}
}

// held measures n locks that are held. Each turn has a worker of its own.
func held(n int) opener {
	return func(_ context.Context, at place) (turn, func(), error) {
		return func(ctx context.Context, turn int) ([]result.Value, error) {
			c := at.config(at.HeldTTL)
			c.Loop = true
			i, err := measure.MeasureIdle(ctx, c, measure.IdleOptions{Name: fmt.Sprint(at.name, "-", turn), Held: n, For: at.HeldTTL, Server: at.stage.Load})
			return append([]result.Value{
				result.Less("requests", "/s", i.Requests),
				// Locks are renewed at a third of the TTL, if their library has no other mind.
				result.Less("requests, in a third of the TTL", "", i.Requests*at.HeldTTL.Seconds()/3),
			}, idle(i, n)...), err
		}, func() {}, nil
	}
}

// idle is what is told of n locks held, or waiters, beside their requests.
func idle(i measure.Idle, n int) []result.Value {
	return []result.Value{
		result.Less("connections", "", float64(i.Connections)),
		result.Less("client CPU", "% of a core", 100*i.ClientCPU),
		result.Less("server CPU", "% of a core", 100*i.ServerCPU),
		result.Less("goroutines", "", float64(i.Goroutines)),
		result.Less("client memory", "B each", float64(i.Memory)/float64(n)),
		result.Less("server memory", "B each", float64(i.Server)/float64(n)),
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
