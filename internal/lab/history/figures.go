package history

import (
	"cmp"
	"reflect"
	"strings"
	"time"
)

// Figures are the measurements of histories. The zero value has none. Fields are numbers or [Samples].
type Figures struct {
	Phases int `json:"phases"`
	// Faults counts injections, and Acquisitions successful ones.
	Faults       int `json:"faults"`
	Acquisitions int `json:"acquisitions"`
	// Overlapped counts phases in which two holds of a name were believed at once.
	Overlapped int `json:"overlapped"`
	// Readers counts holds that began beside another reader, and Permits those that began beside another permit of the name.
	Readers int `json:"readers,omitempty"`
	Permits int `json:"permits,omitempty"`
	// TellingAfter is how long after the deadline a running worker was told that its hold had ended. Only holds that reached their deadline count.
	TellingAfter Samples `json:"telling_after_deadline,omitzero"`
	// RemovalNotice is the time from a lock's removal at the server until its holder was told.
	RemovalNotice Samples `json:"removal_notice,omitzero"`
	// LateReturn is how long after their contexts' end acquisitions returned. One that never returned counts from [Hanging] on, with the time seen.
	LateReturn Samples `json:"late_return,omitzero"`
	// Takeover is the time from kill -9 of a holder until another worker had its lock.
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

// Hanging is the limit for an acquisition to return after its context's end.
const Hanging = time.Second

// Measure measures a phase. On the server, a hold ends margin after its deadline.
func Measure(h *History, margin time.Duration) Figures {
	f := Figures{Phases: 1, Faults: len(h.Injections()), Acquisitions: len(h.Spans), Overlapped: min(len(h.Overlaps()), 1)}
	f.Readers, f.Permits = h.joins()
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

// removal measures when the holder of a removed lock was told. A holder that released it first is no sample.
func (f *Figures) removal(h *History, name string, at Instant) {
	for _, s := range h.Spans {
		if s.Name == name && s.Got <= at && at < s.Until && s.Told != 0 {
			f.RemovalNotice.Add(s.Told.Sub(at))
		}
	}
}

// silence measures when the worker of a hold that reached its deadline was told. A worker that was stopped then is no sample.
func (f *Figures) silence(h *History, s *Span, margin time.Duration) {
	late := s.Deadline.Add(margin)
	over := cmp.Or(s.Told, s.Releasing)
	switch {
	case s.Deadline == 0, over != 0 && over < s.Deadline, s.Killed != 0 && s.Killed <= late:
		return // it ended in another way
	case over == 0 && h.End < late.Add(Hanging):
		return // the history is too short to tell
	}
	told := cmp.Or(over, h.End)
	if h.stopped(s.Worker, s.Deadline, told) {
		return
	}
	f.TellingAfter.Add(told.Sub(s.Deadline))
}

// takeover measures when another worker had the lock of a killed one.
func (f *Figures) takeover(h *History, s *Span) {
	if s.Killed == 0 || s.Ending != endedByKill || s.Mode != (Mode{}) { // others may already hold a reader's lock, or a permit
		return
	}
	for _, next := range h.Spans {
		if next.Name == s.Name && next.Got > s.Killed && next.Worker != s.Worker {
			f.Takeover.Add(next.Got.Sub(s.Killed))
			return
		}
	}
}

// lateReturn measures an attempt that its context ended. If the worker was stopped meanwhile, it is no sample.
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

// recovery measures the first hold after a fault and before the next one. Workers started since the fault do not count.
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
