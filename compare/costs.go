package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

func measureWorkerMain() {
	measure.WorkerMain(func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		if c.Library == pinging {
			return openPing(c.URL)
		}
		return measure.Open(ctx, c, lockport.Label("compare"))
	})
}

// costs measures an uncontended cycle against a bare round trip, a hand-off, and the death of a holder, one subject at a time. It returns the
// measurements, and the servers that are not installed. A scenario that fails is noted in Costs.NotRun, and the others go on.
func (o *Options) costs(ctx context.Context, all []subject, p plan) (seen []report.Costs, missing []report.Missing, _ error) {
	wanted := func(s subject) []scenario {
		return slices.DeleteFunc(slices.Clone(scenarios), func(c scenario) bool { return s.start == nil || !o.match(c.name, s.Name) })
	}
	done, total := 0, 0
	for _, s := range all {
		total += len(wanted(s))
	}
	for _, s := range all {
		chosen := wanted(s)
		if len(chosen) == 0 {
			continue
		}
		tell := func(what string) { o.tell("costs", done, total, s.Title+": "+what) }
		tell("starting")
		running, err := s.start(ctx)
		if absent := new(servers.NotInstalled); ctx.Err() == nil && errors.As(err, &absent) {
			missing = append(missing, report.Missing{Subject: s.Name, Program: absent.Program, Install: absent.Install})
			done += len(chosen)
			continue
		}
		if err == nil {
			m := &measurement{
				plan: p, Config: measure.Config{URL: running.URL, TTL: s.ttl}, names: "lockport-compare-" + rand.Text()[:8] + "-",
				costs: report.Costs{Subject: s.Name, Setup: s.setup, TTL: float64(s.ttl.Milliseconds()), Question: question(running.URL), NotRun: make(map[string]string)},
			}
			for _, c := range chosen {
				tell(c.name)
				if err := c.measure(m, ctx); err != nil {
					m.costs.NotRun[c.name] = "it failed: " + strings.Join(strings.Fields(err.Error()), " ")
				}
				done++
				tell(c.name)
			}
			m.costs.RoundTrip = report.QuantilesOf(m.roundTrips)
			seen = append(seen, m.costs)
			err = running.Close()
		}
		if ctx.Err() != nil {
			return seen, missing, ctx.Err()
		}
		if err != nil {
			return seen, missing, fmt.Errorf("the servers of %s: %w", s.Title, err)
		}
	}
	return seen, missing, nil
}
