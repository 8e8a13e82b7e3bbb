package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// CSV writes the raw samples of the costs, a line each and in the order in which they were taken: subject, scenario, what was measured, its unit, and the
// sample. The first line names the columns. A report that was read from JSON has no samples.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"subject", "scenario", "what", "unit", "sample"}); err != nil {
		return err
	}
	for i := range r.Costs {
		for _, m := range r.Costs[i].measured() {
			for _, sample := range m.of.Samples {
				line := []string{r.Costs[i].Subject, m.scenario, m.what, m.unit, strconv.FormatFloat(sample, 'g', -1, 64)}
				if err := out.Write(line); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// measurement is one thing that was measured of a subject.
type measurement struct {
	scenario, what, unit string
	of                   *Quantiles
}

func (c *Costs) measured() []measurement {
	const us, ms = "us", "ms"
	var all []measurement
	if c.RoundTrip != nil {
		all = append(all, measurement{"cycle", "round trip", us, c.RoundTrip})
	}
	if c.Cycle != nil {
		all = append(all, measurement{"cycle", "acquire", us, &c.Cycle.Acquire}, measurement{"cycle", "release", us, &c.Cycle.Release})
	}
	for i := range c.Contention {
		t := &c.Contention[i]
		all = append(all, measurement{"contention", fmt.Sprintf("wait, %d clients in %d processes", t.Clients, t.Processes), us, &t.Wait})
	}
	if c.HandOff != nil {
		all = append(all, measurement{"handoff", "release to acquire", us, &c.HandOff.Time})
	}
	if c.Takeover != nil {
		all = append(all, measurement{"takeover", "kill to acquire", ms, &c.Takeover.Time})
	}
	if c.Failover != nil {
		all = append(all, measurement{"failover", c.Failover.What, ms, &c.Failover.Time})
	}
	return all
}
