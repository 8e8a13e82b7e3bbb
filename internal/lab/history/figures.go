package history

import (
	"cmp"
	"reflect"
	"strings"
	"time"
)

// Figures are what is measured in histories. The zero value is that of none. Fields are numbers or [Samples].
type Figures struct {
	Phases int `json:"phases"`
	// Faults is how often a fault was injected, Acquisitions how many were successful.
	Faults       int `json:"faults"`
	Acquisitions int `json:"acquisitions"`
	// Overlaps are pairs of holds of a name that were believed in at one time, and Overlapped is in how many phases there were any.
	Overlaps   int `json:"overlaps"`
	Overlapped int `json:"overlapped"`
	// Readers are holds that began beside another reader, and Permits those that began when another permit of the name was held.
	Readers int `json:"readers,omitempty"`
	Permits int `json:"permits,omitempty"`
	// TokenFaults are tokens that were given twice or fell.
	TokenFaults int `json:"token_faults"`
	// Wrote are updates of the register. LostFenced and LostBare are those that were lost, which the register knows: [Measure] leaves them 0.
	Wrote      int   `json:"wrote"`
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
	// Recovery is the time from the end of a fault until somebody acquired a lock.
	Recovery Samples `json:"recovery,omitzero"`
}

// Add adds the figures of other phases.
func (f *Figures) Add(o Figures) {
	to, from := reflect.ValueOf(f).Elem(), reflect.ValueOf(o)
	for i := range to.NumField() {
		if samples, ok := to.Field(i).Addr().Interface().(*Samples); ok {
			samples.Merge(from.Field(i).Interface().(Samples))
		} else {
			to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
		}
	}
}

// Hanging is how long after its context's end an acquisition must have returned.
const Hanging = time.Second

// Measure takes the figures of a phase. A hold ends at the server margin after its deadline.
func Measure(h *History, margin time.Duration) Figures {
	f := Figures{Phases: 1, Faults: len(h.Injections()), Acquisitions: len(h.Spans), Overlaps: len(h.Overlaps()), TokenFaults: len(h.TokenFaults())}
	f.Overlapped = min(f.Overlaps, 1)
	f.Readers, f.Permits = h.beside()
	for i, e := range h.Events {
		name, removed := strings.CutPrefix(e.Err, Removed)
		switch {
		case e.Kind == Wrote:
			f.Wrote++
		case e.Kind == Checked && e.Deadline != 0 && e.At > e.Deadline:
			f.Paused++
			if e.Valid {
				f.PausedValid++
			}
		case e.Kind == Noted && removed:
			f.removal(h, name, e.At)
		case e.Kind == Noted && e.Err == Healed:
			f.recovery(e.At, h.Events[i+1:])
		}
	}
	for _, s := range h.Spans {
		f.silence(h, s, margin)
		f.takeover(h, s)
	}
	for _, s := range h.Attempts {
		f.lateReturn(h, s)
	}
	return f
}

// removal looks for when the holder of a removed lock was told. A holder that released it first is no sample.
func (f *Figures) removal(h *History, name string, at Instant) {
	for _, s := range h.Spans {
		if s.Name == name && s.Got <= at && at < s.Until && s.Told != 0 {
			f.RemovalNotice.Add(s.Told.Sub(at))
		}
	}
}

// silence looks whether the worker of a hold that reached its deadline was told in time. A worker that was stopped then cannot be.
func (f *Figures) silence(h *History, s *Span, margin time.Duration) {
	late := s.Deadline.Add(margin)
	over := cmp.Or(s.Told, s.Releasing)
	switch {
	case s.Deadline == 0, over != 0 && over < s.Deadline, s.Killed != 0 && s.Killed <= late:
		return // something else ended it
	case over == 0 && h.End < late.Add(Hanging):
		return // the history is too short to tell
	}
	told := cmp.Or(over, h.End)
	if h.stopped(s.Worker, s.Deadline, told) {
		return
	}
	f.Silent++
	f.TellingAfter.Add(told.Sub(s.Deadline))
	if told > late {
		f.SilentLate++
	}
}

// takeover looks for who had the lock after its holder was killed.
func (f *Figures) takeover(h *History, s *Span) {
	if s.Killed == 0 || s.Ending != endedByKill || s.Mode != (Mode{}) { // others may have had what a reader has, or a permit
		return
	}
	for _, next := range h.Spans {
		if next.Name == s.Name && next.Got > s.Killed && next.Worker != s.Worker {
			f.Takeover.Add(next.Got.Sub(s.Killed))
			return
		}
	}
}

// lateReturn looks at an attempt that its context ended. An attempt whose worker was stopped meanwhile is no sample.
func (f *Figures) lateReturn(h *History, s *Span) {
	returned := cmp.Or(s.Got, s.Failed)
	until := cmp.Or(returned, s.Killed, h.End)
	if s.Limit == 0 || until < s.Limit || h.stopped(s.Worker, s.Limit, until) {
		return
	}
	if returned != 0 {
		f.LateReturn.Add(returned.Sub(s.Limit))
	}
	if until.Sub(s.Limit) > Hanging {
		f.Hung++
	}
}

// recovery looks for the first hold after a fault has ended and before the next one. What workers do that were started since is no sample.
func (f *Figures) recovery(healed Instant, after []Event) {
	late := make(map[string]bool)
	for _, e := range after {
		switch {
		case e.Kind == Noted && (e.Err == Injected || e.Err == Healed):
			return
		case e.Kind == Spawned:
			late[e.Worker] = true
		case e.Kind == Got && !late[e.Worker]:
			f.Recovery.Add(e.At.Sub(healed))
			return
		}
	}
}
