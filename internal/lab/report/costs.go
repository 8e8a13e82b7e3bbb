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

	Cycle      Cycle        `json:"cycle,omitzero"`
	Contention []Contention `json:"contention,omitempty"`
	HandOff    HandOff      `json:"hand_off,omitzero"`
	Takeover   Takeover     `json:"takeover,omitzero"`
	Waiters    []Waiters    `json:"waiters,omitempty"`
	// NotRun says why a scenario has no figures, by its name: "waiters": "there is no server".
	NotRun map[string]string `json:"not_run,omitempty"`
}

// Cycle is one client that acquires and releases a lock that nobody else wants.
type Cycle struct {
	Acquire Quantiles `json:"acquire"`
	Release Quantiles `json:"release"`
	// Ratio is that of the median cycle to the median bare round trip, over the turns.
	Ratio Spread `json:"ratio"`
}

// Contention is many clients that take one lock in turn as fast as they can.
type Contention struct {
	Clients   int `json:"clients"` // goroutines, of all processes together
	Processes int `json:"processes"`
	// PerSecond is how often the lock was had in a second, over the turns.
	PerSecond Spread `json:"per_second"`
	// Ratio is that of the time for each hold to the bare round trip.
	Ratio Spread `json:"ratio"`
	// Wait is from asking to having.
	Wait Quantiles `json:"wait"`
	// Overlaps is how often two had it at one time, and must be 0.
	Overlaps int `json:"overlaps"`
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

// Waiters is the load of clients that wait for a lock that somebody has.
type Waiters struct {
	Waiters   int `json:"waiters"` // goroutines
	Processes int `json:"processes"`
	// PerSecond is how many requests the servers had of them together in a second, after all had begun to wait.
	PerSecond float64 `json:"per_second"`
}
