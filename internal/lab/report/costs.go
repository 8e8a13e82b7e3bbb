package report

// Costs are the costs of one subject's locks on this machine. Latencies are in microseconds, other times in milliseconds. A ratio is to the bare
// round trip, measured in turns with it.
type Costs struct {
	Subject string `json:"subject"`
	// Setup says what ran: "three etcds, which sync to disk".
	Setup string `json:"setup"`
	// TTL is the locks' TTL, in milliseconds.
	TTL float64 `json:"ttl"`
	// RoundTrip is the shortest request to the server, through its ordinary client. Question names the request ("PING").
	RoundTrip Quantiles `json:"round_trip,omitzero"`
	Question  string    `json:"question,omitempty"`

	Cycle    Cycle    `json:"cycle,omitzero"`
	HandOff  HandOff  `json:"hand_off,omitzero"`
	Takeover Takeover `json:"takeover,omitzero"`
	// NotRun says why a scenario has no figures: "takeover": "it failed: …".
	NotRun map[string]string `json:"not_run,omitempty"`
}

// Cycle is one client that acquires and releases an uncontended lock.
type Cycle struct {
	Acquire Quantiles `json:"acquire"`
	Release Quantiles `json:"release"`
	// Ratio is that of the median cycle to the median bare round trip, over the turns.
	Ratio Spread `json:"ratio"`
}

// HandOff is the time from a release until Acquire returns in another, waiting process.
type HandOff struct {
	Time  Quantiles `json:"time"`
	Ratio Spread    `json:"ratio"`
}

// Takeover is the time from the kill -9 of a holder's process until a waiting process has the lock, in milliseconds.
type Takeover struct {
	Time Quantiles `json:"time"`
}

// figure is a cell of the table of costs: the figure, and details in parentheses.
type figure struct{ Text, More string }

// Head returns the column titles of the table of costs.
func (r view) Head() []string {
	return []string{"", "round trip", "Acquire", "Release", "cycle, ×", "hand-off", "takeover"}
}

// Figures is a subject's row of the table of costs: medians, and details such as the 99th percentile.
func (r view) Figures(c Costs) []figure {
	micros := func(q Quantiles) figure { return median(q, Micros, "99 %: "+Micros(q.P99)) }
	handOff := micros(c.HandOff.Time)
	if c.HandOff.Ratio.N > 0 {
		handOff.More += "; × " + c.HandOff.Ratio.String()
	}
	return []figure{
		{r.Title(c.Subject), ""},
		median(c.RoundTrip, Micros, c.Question),
		micros(c.Cycle.Acquire), micros(c.Cycle.Release),
		{Spread{N: min(1, c.Cycle.Ratio.N), Median: c.Cycle.Ratio.Median}.String(), c.Cycle.Ratio.String()},
		handOff,
		median(c.Takeover.Time, Millis, "most "+Millis(c.Takeover.Time.Max)+", TTL "+Millis(c.TTL)),
	}
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
