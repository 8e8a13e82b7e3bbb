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
	// Overlapped is in how many phases two holds of a name were believed in at one time.
	Overlapped int `json:"overlapped"`
	// Readers are holds that began beside another reader, and Permits those that began when another permit of the name was held.
	Readers int `json:"readers,omitempty"`
	Permits int `json:"permits,omitempty"`
	// TellingAfter is how much later than its deadline a worker that ran was told that a hold had ended, of those that reached their deadline.
	TellingAfter Samples `json:"telling_after_deadline,omitzero"`
	// RemovalNotice is the time from the removal of a lock at the server until its holder was told.
	RemovalNotice Samples `json:"removal_notice,omitzero"`
	// LateReturn is how long after their context's end acquisitions returned, of those that it ended; at least, of one that never did and is [Hanging].
	LateReturn Samples `json:"late_return,omitzero"`
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
	f := Figures{Phases: 1, Faults: len(h.Injections()), Acquisitions: len(h.Spans), Overlapped: min(len(h.Overlaps()), 1)}
	f.Readers, f.Permits = h.beside()
	for i, e := range h.Events {
		name, removed := strings.CutPrefix(e.Err, Removed)
		switch {
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
	f.TellingAfter.Add(told.Sub(s.Deadline))
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
	if after := until.Sub(s.Limit); returned != 0 || after > Hanging {
		f.LateReturn.Add(after)
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
