package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/worker"
)

// HandOff passes a lock back and forth between two processes, or two goroutines of one. It measures the times from a release to the waiter's grant.
// A hold lasts between For and twice that, at random. So the waiter has time to block, and a polling waiter is met at every point of its interval.
func HandOff(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	name := fmt.Sprint(on.Locks, "-", turn)
	pass := func(n int) (times []float64, err error) {
		if s.Processes == 1 { // orders between processes would distort the times
			a, err := on.workers[0].Ask(ctx, order{Do: "handoff", Name: name, Most: n, For: s.For})
			return unpack[float64](a.Packed), err
		}
		return relay(ctx, name, n, s.For, on.workers[0].Send, on.workers[1].Send)
	}
	if err := on.start(ctx, s.Processes, func() error { _, err := pass(2); return err }); err != nil { // both connect
		return nil, err
	}
	times, err := pass(s.Samples)
	if err != nil {
		return nil, err
	}
	on.keep("times", times)
	return latencies(times), nil
}

// sender sends an order to a worker.
type sender func(order) (await func(context.Context) (answer, error))

// relay passes a lock back and forth between two workers n times. It returns microseconds.
func relay(ctx context.Context, name string, n int, pause time.Duration, holder, waiter sender) (times []float64, err error) {
	acquire, release := order{Do: "acquire", Name: name, For: grantLimit}, order{Do: "release", Name: name}
	if _, err := holder(acquire)(ctx); err != nil {
		return nil, err
	}
	for range n {
		granted := waiter(acquire)
		if err := worker.Sleep(ctx, pause+rand.N(pause)); err != nil {
			return nil, err
		}
		released, err := holder(release)(ctx)
		if err != nil {
			return nil, err
		}
		took, err := timeToGrant(ctx, released.At, granted, "the release")
		if err != nil {
			return nil, err
		}
		times = append(times, micros(took))
		holder, waiter = waiter, holder
	}
	_, err = holder(release)(ctx)
	return times, err
}

// handOff is HandOff between goroutines of this worker.
func (m *measurer) handOff(o order) (answer, error) {
	send := func(o order) func(context.Context) (answer, error) {
		var a answer
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			a, err = m.Do(o)
		}()
		return func(context.Context) (answer, error) { <-done; return a, err }
	}
	times, err := relay(m.ctx, o.Name, o.Most, o.For, send, send)
	return answer{Packed: pack(times)}, err
}

// timeToGrant returns the time from the end of one hold to the grant of the next. With a correct lock it is never negative.
func timeToGrant(ctx context.Context, ended history.Instant, granted func(context.Context) (answer, error), end string) (time.Duration, error) {
	a, err := granted(ctx)
	if err == nil && a.At < ended {
		err = fmt.Errorf("the lock was granted %v before %s", ended.Sub(a.At), end)
	}
	return a.At.Sub(ended), err
}

// Takeover kills a process that holds N locks, and measures the times until waiters hold them. The kills are spread over the renewal period.
func Takeover(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	c := on.Config
	c.Loop = true
	all, err := kind.StartAll(ctx, c, s.Processes)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	holder, others := all[0], all[1:]
	var waits []func(context.Context) (answer, error)
	for i := range s.N {
		o := order{Do: "acquire", Name: fmt.Sprint(on.Locks, "-", turn, "-", i), For: grantLimit}
		if _, err := holder.Ask(ctx, o); err != nil {
			return nil, err
		}
		o.For += c.TTL
		waits = append(waits, others[i%len(others)].Send(o))
	}
	if err := worker.Sleep(ctx, settleStep+c.TTL/3*time.Duration(2*turn+1)/time.Duration(2*s.Turns)); err != nil {
		return nil, err
	}
	killed := history.Now()
	holder.Kill()
	var times []float64
	for _, granted := range waits {
		took, err := timeToGrant(ctx, killed, granted, "its holder's death")
		if err != nil {
			return nil, err
		}
		times = append(times, micros(took)/1e3)
	}
	on.keep("times", times)
	q := report.QuantilesOf(times)
	return []Figure{figure("p50", "ms", q.P50), figure("most", "ms", q.Max)}, nil
}
