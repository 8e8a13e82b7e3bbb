package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// turns is how often cycles and hand-offs are measured.
const turns = 5

// scenarios are the measurements of a subject: an uncontended cycle, a hand-off between two processes, and the death of a process that holds ten locks.
var scenarios = []measure.Scenario{
	{Name: "cycle", Do: measure.Cycle, Turns: turns, N: 1, Samples: 2000, For: 150 * time.Millisecond},
	{Name: "handoff", Do: measure.HandOff, Turns: turns, Processes: 2, Samples: 20, For: 7 * time.Millisecond},
	{Name: "takeover", Do: measure.Takeover, Turns: 1, Processes: 4, N: 10},
}

// costs measures one subject at a time. It returns the measurements, and the servers that are not installed. A scenario that fails is noted in
// Costs.NotRun, and the others go on.
func (o *Options) costs(ctx context.Context, all []subject) (seen []report.Costs, missing []report.Missing, _ error) {
	wanted := func(s subject) []measure.Scenario {
		return slices.DeleteFunc(slices.Clone(scenarios), func(c measure.Scenario) bool { return s.start == nil || !o.match("costs", c.Name, s.Name) })
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
		if absent, ok := errors.AsType[*servers.NotInstalled](err); ok && ctx.Err() == nil {
			missing = append(missing, report.Missing{Subject: s.Name, Program: absent.Program, Install: absent.Install})
			done += len(chosen)
			continue
		}
		if err == nil {
			c := report.Costs{Subject: s.Name, Setup: s.setup, TTL: float64(s.ttl.Milliseconds()), NotRun: make(map[string]string)}
			names := "lockport-compare-" + rand.Text()[:8] + "-"
			for _, scenario := range chosen {
				tell(scenario.Name)
				on := &measure.Subject{Config: measure.Config{URL: running.URL, TTL: s.ttl}, Locks: names + scenario.Name}
				_ = scenario.Run(ctx, nil, on) // only ctx's error, which ends the run below
				keep(&c, scenario.Name, on)
				done++
				tell(scenario.Name)
			}
			seen = append(seen, c)
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

// keep stores what a scenario measured. A failure in any turn counts as a failure.
func keep(c *report.Costs, scenario string, on *measure.Subject) {
	if len(on.Failed) > 0 {
		c.NotRun[scenario] = "it failed: " + on.Failed[0]
		return
	}
	times := report.QuantilesOf(on.Samples["times"])
	switch scenario {
	case "cycle":
		c.Acquire, c.Release = report.QuantilesOf(on.Samples["acquire"]), report.QuantilesOf(on.Samples["release"])
	case "handoff":
		c.HandOff = times
	case "takeover":
		c.Takeover = times
	}
}
