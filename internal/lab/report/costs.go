package report

// Costs are the costs of one subject's locks on this machine.
type Costs struct {
	Subject string `json:"subject"`
	// Setup says what ran: "three etcds, which sync to disk".
	Setup string `json:"setup"`
	// TTL is the locks' TTL, in milliseconds.
	TTL float64 `json:"ttl"`
	// Acquire and Release are those of one client and an uncontended lock, in microseconds.
	Acquire Quantiles `json:"acquire,omitzero"`
	Release Quantiles `json:"release,omitzero"`
	// HandOff is the time from a release until Acquire returns in another, waiting process, in microseconds.
	HandOff Quantiles `json:"hand_off,omitzero"`
	// Takeover is the time from the kill -9 of a holder's process until a waiting process has the lock, in milliseconds.
	Takeover Quantiles `json:"takeover,omitzero"`
	// NotRun says why a scenario has no figures: "takeover": "it failed: …".
	NotRun map[string]string `json:"not_run,omitempty"`
}

// figure is a cell of the table of costs: the figure, and details in parentheses.
type figure struct{ Text, More string }

// Head returns the column titles of the table of costs.
func (r view) Head() []string {
	return []string{"", "Acquire", "Release", "hand-off", "takeover"}
}

// Figures is a subject's row of the table of costs: medians, and details such as the 99th percentile.
func (r view) Figures(c Costs) []figure {
	micros := func(q Quantiles) figure { return median(q, Micros, "99 %: "+Micros(q.P99)) }
	takeover := "most " + Millis(c.Takeover.Max) + ", TTL " + Millis(c.TTL)
	return []figure{{r.Title(c.Subject), ""}, micros(c.Acquire), micros(c.Release), micros(c.HandOff), median(c.Takeover, Millis, takeover)}
}

// median shows the median of q, or a dash without samples.
func median(q Quantiles, text func(float64) string, more string) figure {
	if q.N == 0 {
		return figure{"–", ""}
	}
	return figure{text(q.P50), more}
}

// ID is the anchor of a subject's costs: "costs-redis".
func (c Costs) ID() string { return "costs-" + anchorOf(c.Subject) }
