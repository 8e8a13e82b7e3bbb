package measure

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Wait measures N goroutines, spread over processes, that wait for a name that another process holds. Each turn starts new workers, since waiters
// wait until their process ends.
func Wait(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	c := on.config(s)
	holder, err := kind.StartAll(ctx, c, 1)
	if err != nil {
		return nil, err
	}
	defer on.end(holder)
	name := fmt.Sprint(on.Locks, "-", turn)
	if _, err := holder[0].Ask(ctx, order{Do: "acquire", Name: name, For: grantLimit}); err != nil {
		return nil, err
	}
	return idle(ctx, c, s, on, func(i int) order { return order{Do: "wait", Name: name, Goroutines: share(s.N, s.Processes, i)} })
}

// Hold measures N locks that one process holds. Each turn starts a new worker.
func Hold(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	c := on.config(s)
	c.Loop = true
	figures, err := idle(ctx, c, s, on, func(int) order { return order{Do: "hold", Name: fmt.Sprint(on.Locks, "-", turn), Most: s.N} })
	if err != nil {
		return nil, err
	}
	// Libraries renew locks at a third of the TTL, unless they define it otherwise.
	third := figure("requests, in a third of the TTL", "", figures[0].Each[0]*c.TTL.Seconds()/3)
	return append([]Figure{figures[0], third}, figures[1:]...), nil
}

// end ends workers. Call it for waiters before the holder, so that no waiter is granted the lock.
func (on *Subject) end(w worker.Group[order, answer]) {
	if on.Kill {
		w.Kill()
	}
	w.Close()
}

// idle measures the cost of being idle, through new proxies that count requests: the servers need addresses, and no TLS. Goroutines and memory are those of the first worker.
func idle(ctx context.Context, c Config, s Scenario, on *Subject, do func(i int) order) ([]Figure, error) {
	through, links, err := faultproxy.ForURL(c.URL)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	c.URL = through
	w, err := kind.StartAll(ctx, c, s.Processes)
	if err != nil {
		return nil, err
	}
	defer on.end(w)
	type used struct {
		usage
		at       history.Instant
		requests int64
	}
	look := func(settled bool) (u used) {
		if err == nil {
			var a answer
			a, err = w[0].Ask(ctx, order{Do: "usage", Settle: settled})
			u = used{usage: a.Usage, at: history.Now(), requests: links.Requests()}
		}
		return u
	}
	before := look(true)
	if err == nil {
		err = w.Each(func(i int, h *worker.Handle[order, answer]) error {
			_, err := h.Ask(ctx, do(i))
			return err
		})
	}
	if err == nil {
		err = settle(ctx, links)
	}
	began := look(true)
	if err == nil {
		err = sleep(ctx, s.For)
	}
	ended := look(false)
	if err != nil {
		return nil, err
	}
	seconds, n := ended.at.Sub(began.at).Seconds(), float64(s.N)
	conns := 0
	links.Each(func(p *faultproxy.Proxy) { conns += p.Conns() })
	return []Figure{
		figure("requests", "/s", float64(ended.requests-began.requests)/seconds),
		figure("connections", "", float64(conns)),
		figure("client CPU", "% of a core", 100*(ended.CPU-began.CPU).Seconds()/seconds),
		figure("goroutines", "", float64(began.Goroutines-before.Goroutines)),
		figure("client memory", "B each", float64(began.Memory-before.Memory)/n),
	}, nil
}

const (
	settleStep  = 300 * time.Millisecond
	settleSteps = 5 // so many that setting 10,000 watches does not pass for settled
	settleLimit = 20 * time.Second
)

// settle waits until all workers wait, or hold: until the number of requests has stayed about the same for settleSteps intervals.
func settle(ctx context.Context, links faultproxy.Group) error {
	deadline := time.Now().Add(settleLimit)
	before, alike := links.Requests(), 0
	for last := math.Inf(1); alike < settleSteps && time.Now().Before(deadline); {
		if err := sleep(ctx, settleStep); err != nil {
			return err
		}
		next := links.Requests()
		made := float64(next - before)
		if alike++; math.Abs(made-last) > max(5, last/5) {
			alike = 0
		}
		last, before = made, next
	}
	return nil // it never settles, and that is what we measure
}
