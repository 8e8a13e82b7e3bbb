package report

// Costs are what locks of one subject cost on this machine. Latencies are microseconds, other times milliseconds; a ratio is to the bare round
// trip, measured in turns with it in the same run.
type Costs struct {
	Subject string `json:"subject"`
	// Setup says what ran: "three etcds, which sync to disk".
	Setup string `json:"setup"`
	// TTL is that of the locks, in milliseconds.
	TTL float64 `json:"ttl"`
	// RoundTrip is the smallest question to the server and its answer, through the server's ordinary client. Question says what is asked ("PING").
	RoundTrip Quantiles `json:"round_trip,omitzero"`
	Question  string    `json:"question,omitempty"`

	Cycle    Cycle    `json:"cycle,omitzero"`
	HandOff  HandOff  `json:"hand_off,omitzero"`
	Takeover Takeover `json:"takeover,omitzero"`
	// NotRun says why a scenario has no figures, by its name: "takeover": "it failed: …".
	NotRun map[string]string `json:"not_run,omitempty"`
}

// Cycle is one client that acquires and releases a lock that nobody else wants.
type Cycle struct {
	Acquire Quantiles `json:"acquire"`
	Release Quantiles `json:"release"`
	// Ratio is that of the median cycle to the median bare round trip, over the turns.
	Ratio Spread `json:"ratio"`
}

// HandOff is from a release to the return of Acquire in another process, which waited.
type HandOff struct {
	Time  Quantiles `json:"time"`
	Ratio Spread    `json:"ratio"`
}

// Takeover is from the kill -9 of a holder's process until another one, which waited, has the lock. Milliseconds.
type Takeover struct {
	Time Quantiles `json:"time"`
}

// figure is what a cell of the table of costs says: the figure, and in parentheses what else there is to know.
type figure struct{ Text, More string }

// Head are the columns of the table of costs.
func (r view) Head() []string {
	return []string{"", "round trip", "Acquire", "Release", "cycle, ×", "hand-off", "takeover"}
}

// Figures are a subject's row of the table of costs: medians, and what most samples do not exceed.
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

// median is that of q for people, or a dash without samples.
func median(q Quantiles, text func(float64) string, more string) figure {
	if q.N == 0 {
		return figure{"–", ""}
	}
	return figure{text(q.P50), more}
}

// ID is the anchor of a subject's costs: "costs-redis".
func (c Costs) ID() string { return "costs-" + anchorOf(c.Subject) }
