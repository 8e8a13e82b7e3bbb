package measure

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Wait measures N goroutines of one process that wait for a name that another process holds.
func Wait(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	holder, err := kind.Start(ctx, on.Config)
	if err != nil {
		return nil, err
	}
	defer holder.Close()
	name := fmt.Sprint(on.Locks, "-", turn)
	if _, err := holder.Ask(ctx, order{Do: "acquire", Name: name, For: grantLimit}); err != nil {
		return nil, err
	}
	return idle(ctx, on.Config, s, order{Do: "wait", Name: name, Goroutines: s.N})
}

// Hold measures N locks that one process holds.
func Hold(ctx context.Context, s Scenario, on *Subject, turn int) ([]Figure, error) {
	c := on.Config
	c.Loop = true
	figures, err := idle(ctx, c, s, order{Do: "hold", Name: fmt.Sprint(on.Locks, "-", turn), Most: s.N})
	if err != nil {
		return nil, err
	}
	// Libraries renew locks at a third of the TTL, unless they define it otherwise.
	return append(figures, figure("requests, in a third of the TTL", "", figures[0].Each[0]*c.TTL.Seconds()/3)), nil
}

// idle measures what a new worker's order costs once it is carried out. The proxies that count the requests need the servers' addresses, and no TLS.
func idle(ctx context.Context, c Config, s Scenario, o order) ([]Figure, error) {
	through, links, err := faultproxy.ForURL(c.URL)
	if err != nil {
		return nil, err
	}
	defer links.Close()
	c.URL = through
	w, err := kind.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if o.Do == "wait" {
		defer w.Kill() // while they wait, some libraries ignore that their context has ended
	}
	look := func(settled bool) (u answer, requests int64) {
		if err == nil {
			u, err = w.Ask(ctx, order{Do: "usage", Settle: settled})
		}
		return u, links.Requests()
	}
	before, _ := look(true)
	if err == nil {
		_, err = w.Ask(ctx, o)
	}
	if err == nil {
		err = settle(ctx, links)
	}
	began, requests := look(true)
	if err == nil {
		err = worker.Sleep(ctx, s.For)
	}
	ended, requested := look(false)
	if err != nil {
		return nil, err
	}
	seconds, n := ended.At.Sub(began.At).Seconds(), float64(s.N)
	conns := 0
	links.Each(func(p *faultproxy.Proxy) { conns += p.Conns() })
	return []Figure{
		figure("requests", "/s", float64(requested-requests)/seconds),
		figure("connections", "", float64(conns)),
		figure("client CPU", "% of a core", 100*(ended.Usage.CPU-began.Usage.CPU).Seconds()/seconds),
		figure("goroutines", "", float64(began.Usage.Goroutines-before.Usage.Goroutines)),
		figure("client memory", "B each", float64(began.Usage.Memory-before.Usage.Memory)/n),
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
		if err := worker.Sleep(ctx, settleStep); err != nil {
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
