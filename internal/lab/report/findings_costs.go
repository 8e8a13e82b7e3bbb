package report

import (
	"cmp"
	"fmt"
	"slices"
)

// costFindings compare the medians.
func (r *Report) costFindings() []finding {
	var items []string
	compare := func(what string, text func(float64) string, of func(Costs) (float64, bool)) {
		type figure struct {
			subject string
			value   float64
		}
		var figures []figure
		for _, c := range r.Costs {
			if v, ok := of(c); ok {
				figures = append(figures, figure{r.title(c.Subject), v})
			}
		}
		slices.SortStableFunc(figures, func(a, b figure) int { return cmp.Compare(a.value, b.value) })
		switch n := len(figures); {
		case n == 1:
			items = append(items, fmt.Sprintf("%s: %s on %s", what, text(figures[0].value), figures[0].subject))
		case n > 1:
			items = append(items, fmt.Sprintf("%s: from %s on %s to %s on %s", what, text(figures[0].value), figures[0].subject,
				text(figures[n-1].value), figures[n-1].subject))
		}
	}
	compare("Acquire, of a lock that nobody else wants", micros, func(c Costs) (float64, bool) {
		if c.Cycle == nil || c.Cycle.Acquire.N == 0 {
			return 0, false
		}
		return c.Cycle.Acquire.P50, true
	})
	compare("its Acquire and Release together, against the smallest question to the same server and its answer", times, func(c Costs) (float64, bool) {
		if c.Cycle == nil || c.Cycle.Ratio.N == 0 {
			return 0, false
		}
		return c.Cycle.Ratio.Median, true
	})
	compare("from a release until a waiter in another process has the lock", micros, func(c Costs) (float64, bool) {
		if c.HandOff == nil || c.HandOff.Time.N == 0 {
			return 0, false
		}
		return c.HandOff.Time.P50, true
	})
	compare("from the kill of a holder until somebody else has the lock", millis, func(c Costs) (float64, bool) {
		if c.Takeover == nil || c.Takeover.Time.N == 0 {
			return 0, false
		}
		return c.Takeover.Time.P50, true
	})
	compare("without a lock when a server is lost", millis, func(c Costs) (float64, bool) {
		if c.Failover == nil || c.Failover.Time.N == 0 {
			return 0, false
		}
		return c.Failover.Time.P50, true
	})
	if len(items) == 0 {
		return nil
	}
	return []finding{{text: "What locks cost on this machine, by medians", items: items}}
}
