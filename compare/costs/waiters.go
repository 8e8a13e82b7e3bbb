package costs

import (
	"context"
	"slices"
	"sync"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/report"
)

// waiters measures what those cost the servers who wait for a lock that somebody has. Each number of them waits for a name of its own behind proxies of its
// own, all at the same time: what is counted is requests, and nobody is in anybody's way.
func (m *measurement) waiters(ctx context.Context) error {
	var crowds []*crowd
	defer func() {
		var all sync.WaitGroup
		for _, c := range crowds {
			all.Go(c.disperse)
		}
		all.Wait()
	}()
	for _, article := range slices.Compact([]string{"", m.stage.article}) {
		for _, n := range m.plan.waiters {
			if article != "" && n > mostSpinning {
				continue
			}
			c := &crowd{Waiters: report.Waiters{Waiters: n, Processes: min(n, waitProcesses)}}
			crowds = append(crowds, c)
			if err := m.gather(ctx, c, article); err != nil {
				return err
			}
		}
	}
	if err := sleep(ctx, settleTime); err != nil {
		return err
	}
	for _, c := range crowds {
		c.begin()
	}
	if err := sleep(ctx, m.waitTime); err != nil {
		return err
	}
	for _, c := range crowds {
		m.costs.Waiters = append(m.costs.Waiters, c.figures())
	}
	return nil
}

const (
	// waitProcesses is how many processes those who wait are spread over.
	waitProcesses = 3
	// mostSpinning is how many of those may ask again and again: more would be in each other's way.
	mostSpinning = 30
)

// crowd are those who wait for one name.
type crowd struct {
	report.Waiters
	holder  team // the one that has the lock, and does not come through the links
	waiting team
	links   faultproxy.Group // whose requests are counted: what one read of them returned, which is a command, or several that were sent at once
	from    faults.Instant
	before  int64
}

// gather has goroutines wait for a name that is held. An article's lock has no queue of its process's own: each of its callers asks the server.
func (m *measurement) gather(ctx context.Context, c *crowd, article string) (err error) {
	through, links, err := faultproxy.ForURL(m.URL)
	if err != nil {
		return err
	}
	if c.links = links; len(links) == 0 {
		return notRun("requests cannot be counted: there is no server, or no proxy can stand before it (TLS, and servers that name each other's addresses)")
	}
	p := m.posting
	if article != "" {
		p.Article, c.Article = article, articleSays(article)
	}
	if c.holder, err = kind.StartAll(ctx, p, 1); err != nil {
		return err
	}
	name := m.names + "waiters-" + random()[:8]
	if _, err := c.holder[0].Ask(ctx, order{Do: doAcquire, Name: name, For: waitLimit}); err != nil {
		return err
	}
	p.URL = through
	if c.waiting, err = kind.StartAll(ctx, p, c.Processes); err != nil {
		return err
	}
	return c.waiting.Each(func(i int, w *clerk) error {
		goroutines := c.Waiters.Waiters*(i+1)/c.Processes - c.Waiters.Waiters*i/c.Processes
		_, err := w.Ask(ctx, order{Do: doWait, Name: name, Goroutines: goroutines, Direct: article != ""})
		return err
	})
}

func (c *crowd) begin() { c.from, c.before = faults.Now(), c.links.Requests() }

func (c *crowd) figures() report.Waiters {
	c.PerSecond = float64(c.links.Requests()-c.before) / faults.Now().Sub(c.from).Seconds()
	return c.Waiters
}

// disperse ends those who wait before the holder, so that nobody is handed the lock.
func (c *crowd) disperse() {
	c.waiting.Close()
	c.holder.Close()
	c.links.Close()
}
