package report

// overview is what locks cost at a glance: a row for each subject, with the medians.
func (r *Report) overview() table {
	t := table{head: []string{"", "Acquire", "Release", "both, in round trips", "hand-off", "takeover", "without a server"}}
	for i := range r.Costs {
		c := &r.Costs[i]
		t.rows = append(t.rows, append([]string{r.title(c.Subject)}, c.medians("–", times)...))
		t.ids = append(t.ids, c.id())
	}
	return t
}

// id is the anchor of a subject's costs: "costs-redis".
func (c *Costs) id() string { return "costs-" + anchorOf(c.Subject) }

// medians are those of Acquire, Release, both of them in round trips, hand-off, takeover and fail-over; none for what there is not.
func (c *Costs) medians(none string, ratio func(float64) string) []string {
	all := []string{none, none, none, none, none, none}
	set := func(i int, q Quantiles, text func(float64) string) {
		if q.N > 0 {
			all[i] = text(q.P50)
		}
	}
	if y := c.Cycle; y != nil {
		set(0, y.Acquire, micros)
		set(1, y.Release, micros)
		if y.Ratio.N > 0 {
			all[2] = ratio(y.Ratio.Median)
		}
	}
	if h := c.HandOff; h != nil {
		set(3, h.Time, micros)
	}
	if t := c.Takeover; t != nil {
		set(4, t.Time, millis)
	}
	if f := c.Failover; f != nil {
		set(5, f.Time, millis)
	}
	return all
}
