package history

import (
	"strings"
	"time"
)

// Figures are what is measured in histories. The zero value is that of none. They are written as JSON, durations as quantiles in
// Milliseconds. Not safe for concurrent use.
type Figures struct {
	Phases int `json:"phases"`
	// Faults is how often a fault struck.
	Faults int `json:"faults"`
	// Acquisitions were successful; Failures were not, by class.
	Acquisitions int           `json:"acquisitions"`
	Failures     map[Class]int `json:"failures,omitempty"`
	// Overlaps are pairs of holds of a name that were believed in at one time, and Overlapped is in how many phases there were any; TokenFaults
	// are tokens that were duplicate or fell.
	Overlaps    int `json:"overlaps"`
	Overlapped  int `json:"overlapped"`
	TokenFaults int `json:"token_faults"`
	// Believed is how often Valid was seen true past the deadline.
	Believed int `json:"believed"`
	// Wrote and Refused are updates of the register; LostFenced and LostBare those that were lost, which the register knows: [Measure] leaves them 0.
	Wrote      int   `json:"wrote"`
	Refused    int   `json:"refused"`
	LostFenced int64 `json:"lost_fenced"`
	LostBare   int64 `json:"lost_bare"`

	// Paused is how often a worker looked at a hold past its deadline, first thing after a pause; PausedValid how often it then was valid.
	Paused      int `json:"paused"`
	PausedValid int `json:"paused_valid"`
	// Silent is how many holds reached their deadline while their worker ran, and SilentLate how many of those it was told of only after
	// last-renewal-sent + TTL, or never. TellingAfter is how much later than the deadline it was told.
	Silent       int     `json:"silent"`
	SilentLate   int     `json:"silent_late"`
	TellingAfter Samples `json:"telling_after_deadline,omitzero"`
	// RemovalNotice is the time from the removal of a lock at the server until its holder was told.
	RemovalNotice Samples `json:"removal_notice,omitzero"`
	// LateReturn is how long after their context's end acquisitions returned, of those that it ended; Hung is how many had not returned a second later.
	LateReturn Samples `json:"late_return,omitzero"`
	Hung       int     `json:"hung"`
	// Takeover is the time from kill -9 of a holder until another had its lock.
	Takeover Samples `json:"takeover,omitzero"`
	// Recovery is the time from the end of a fault until somebody acquired a lock, and RecoveryOfEach until a worker did, each of them.
	Recovery       Samples `json:"recovery,omitzero"`
	RecoveryOfEach Samples `json:"recovery_of_each,omitzero"`
}

// Add adds the figures of other phases.
func (f *Figures) Add(o Figures) {
	for _, n := range []struct{ to, from *int }{
		{&f.Phases, &o.Phases}, {&f.Faults, &o.Faults}, {&f.Acquisitions, &o.Acquisitions}, {&f.Overlaps, &o.Overlaps},
		{&f.Overlapped, &o.Overlapped}, {&f.TokenFaults, &o.TokenFaults}, {&f.Believed, &o.Believed}, {&f.Wrote, &o.Wrote}, {&f.Refused, &o.Refused}, {&f.Paused, &o.Paused},
		{&f.PausedValid, &o.PausedValid}, {&f.Silent, &o.Silent}, {&f.SilentLate, &o.SilentLate}, {&f.Hung, &o.Hung},
	} {
		*n.to += *n.from
	}
	f.LostFenced += o.LostFenced
	f.LostBare += o.LostBare
	for class, n := range o.Failures {
		f.fail(class, n)
	}
	for _, s := range []struct{ to, from *Samples }{
		{&f.TellingAfter, &o.TellingAfter}, {&f.RemovalNotice, &o.RemovalNotice}, {&f.LateReturn, &o.LateReturn}, {&f.Takeover, &o.Takeover},
		{&f.Recovery, &o.Recovery}, {&f.RecoveryOfEach, &o.RecoveryOfEach},
	} {
		s.to.Merge(*s.from)
	}
}

func (f *Figures) fail(c Class, n int) {
	if f.Failures == nil {
		f.Failures = make(map[Class]int)
	}
	f.Failures[c] += n
}

// Hanging is how long after its context's end an acquisition must have returned.
const Hanging = time.Second

// Measure takes the figures of a phase. A hold ends at the server margin after its deadline.
func Measure(h *History, margin time.Duration) Figures {
	f := Figures{Phases: 1, Faults: len(h.Injections()), Acquisitions: len(h.Spans), Overlaps: len(h.Overlaps()), TokenFaults: len(h.TokenFaults())}
	if f.Overlaps > 0 {
		f.Overlapped = 1
	}
	m := measurement{History: h, margin: margin, figures: &f, stops: make(map[string][]Spell)}
	for i := range h.Events {
		m.event(&h.Events[i])
	}
	for i := range h.Spans {
		m.silence(&h.Spans[i])
		m.takeover(&h.Spans[i])
	}
	for _, t := range h.Attempts {
		m.lateReturn(t)
	}
	for i, e := range h.Events {
		if e.Kind == Noted && e.Err == Healed {
			m.recovery(h.Events[i:])
		}
	}
	return f
}

// measurement is one under way.
type measurement struct {
	*History
	margin  time.Duration
	figures *Figures
	stops   map[string][]Spell
}

// event takes what single events say.
func (m *measurement) event(e *Event) {
	switch e.Kind {
	case Failed:
		m.figures.fail(e.Class, 1)
	case Believed:
		m.figures.Believed++
	case Wrote:
		m.figures.Wrote++
	case Refused:
		m.figures.Refused++
	case Checked:
		if e.Deadline != 0 && e.At > e.Deadline {
			m.figures.Paused++
			if e.Valid {
				m.figures.PausedValid++
			}
		}
	case Noted:
		if name, ok := strings.CutPrefix(e.Err, Removed); ok {
			m.removal(name, e.At)
		}
	}
}

// removal looks for when the holder of a lock that was removed was told. One that released it before is no sample.
func (m *measurement) removal(name string, at Instant) {
	for i := range m.Spans {
		if s := &m.Spans[i]; s.Name == name && s.BelievedAt(at) && s.Told != 0 {
			m.figures.RemovalNotice.Add(s.Told.Sub(at))
		}
	}
}

// silence looks whether the worker of a hold that reached its deadline was told in time. One that did not run then cannot be.
func (m *measurement) silence(s *Span) {
	if s.Deadline == 0 {
		return
	}
	late := s.Deadline.Add(m.margin)
	told := s.Told
	switch over := FirstOf(s.Told, s.Releasing); {
	case over != 0 && over < s.Deadline, s.Killed != 0 && s.Killed <= late:
		return // something else ended it
	case told == 0 && s.Releasing == 0 && m.End < late.Add(Hanging):
		return // its history is too short to tell
	case told == 0:
		told = FirstOf(s.Releasing, m.End)
	}
	if m.stopped(s.Worker, s.Deadline, told) {
		return
	}
	m.figures.Silent++
	m.figures.TellingAfter.Add(told.Sub(s.Deadline))
	if told > late {
		m.figures.SilentLate++
	}
}

// takeover looks for who had the lock after its holder was killed.
func (m *measurement) takeover(s *Span) {
	if s.Killed == 0 || s.Ending != endedByKill {
		return
	}
	for i := range m.Spans {
		if next := &m.Spans[i]; next.Name == s.Name && next.Got > s.Killed && next.Worker != s.Worker {
			m.figures.Takeover.Add(next.Got.Sub(s.Killed))
			return
		}
	}
}

// lateReturn looks at an attempt that its context ended. One whose worker was not running meanwhile is no sample.
func (m *measurement) lateReturn(t *Try) {
	returned := FirstOf(t.Got, t.Failed)
	until := returned
	if returned == 0 {
		until = FirstOf(t.Killed, m.End)
	}
	switch {
	case t.Limit == 0, until < t.Limit, m.stopped(t.Worker, t.Limit, until):
	case returned != 0:
		m.figures.LateReturn.Add(returned.Sub(t.Limit))
		if returned.Sub(t.Limit) > Hanging {
			m.figures.Hung++
		}
	case until.Sub(t.Limit) > Hanging:
		m.figures.Hung++
	}
}

// recovery looks for the first holds after a fault has ended, until there is the next. What workers that came later did is no sample.
func (m *measurement) recovery(after []Event) {
	healed := after[0].At
	seen := make(map[string]bool)
	for _, e := range after[1:] {
		switch {
		case e.Kind == Noted && (e.Err == Injected || e.Err == Healed):
			return
		case e.Kind == Spawned:
			seen[e.Worker] = true
		case e.Kind == Got && !seen[e.Worker]:
			seen[e.Worker] = true
			if !seen[""] {
				seen[""] = true
				m.figures.Recovery.Add(e.At.Sub(healed))
			}
			m.figures.RecoveryOfEach.Add(e.At.Sub(healed))
		}
	}
}

// stopped says that a worker was stopped for a part of the time between two instants.
func (m *measurement) stopped(worker string, from, to Instant) bool {
	stops, known := m.stops[worker]
	if !known {
		stops = m.Stops(worker)
		m.stops[worker] = stops
	}
	for _, s := range stops {
		if s.From <= to && s.To >= from {
			return true
		}
	}
	return false
}

// FirstOf is the first that is not 0.
func FirstOf(instants ...Instant) Instant {
	for _, t := range instants {
		if t != 0 {
			return t
		}
	}
	return 0
}
