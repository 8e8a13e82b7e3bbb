package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// Overlap is a time in which two conflicting holds of one name were believed.
type Overlap struct {
	// First began before Second, or at the same instant. With permits, it is one of those held when Second exceeded their number.
	First, Second *Span
	// From and To are when both believed.
	From, To Instant
}

// Overlaps are all pairs of conflicting holds of one name that were believed at once, ordered by when the overlap began. Holds conflict unless both
// are readers, or the later one stays within the number of permits. Two holds of one worker count like those of two workers.
func (h *History) Overlaps() (all []Overlap) {
	h.forEachBegin(func(s *Span, present []*Span) {
		for _, o := range present[min(max(0, s.Mode.Permits-1), len(present)):] {
			if !s.Mode.Shared || !o.Mode.Shared {
				all = append(all, Overlap{First: o, Second: s, From: s.Got, To: min(o.Until, s.Until)})
			}
		}
	})
	return all
}

// forEachBegin calls f with each believed hold, and with the holds of its name that were believed when it began.
func (h *History) forEachBegin(f func(s *Span, present []*Span)) {
	open := make(map[string][]*Span) // by name, holds whose belief may last
	for _, s := range h.Spans {
		if s.Until <= s.Got {
			continue
		}
		present := slices.DeleteFunc(open[s.Name], func(o *Span) bool { return o.Until <= s.Got })
		f(s, present)
		open[s.Name] = append(present, s)
	}
}

// Joins counts readers that joined another, and permits granted beside another.
func (h *History) Joins() (readers, permits int) {
	h.forEachBegin(func(s *Span, present []*Span) {
		switch {
		case len(present) == 0:
		case s.Mode.Shared:
			readers++
		case s.Mode.Permits > 0:
			permits++
		}
	})
	return readers, permits
}

// Describe tells people who held what until when, and what was done to workers and servers meanwhile.
func (o *Overlap) Describe(h *History) string {
	const before = 3 * time.Second // an earlier fault may have contributed
	return fmt.Sprintf("two held %q for %s, from %s to %s:\n  %s\n  %s\n  meanwhile: %s", o.First.Name, o.To.Sub(o.From), h.Since(o.From), h.Since(o.To),
		h.Line(o.First), h.Line(o.Second), h.Notes(o.First.Asked.Add(-before), o.To))
}

// Contended says that a worker asked for a plain lock while another held it, and got it next.
func (h *History) Contended() bool {
	last := make(map[string]*Span)
	for _, s := range h.Spans {
		if s.Mode != (Mode{}) {
			continue
		}
		if o := last[s.Name]; o != nil && o.Worker != s.Worker && s.Asked < o.Until {
			return true
		}
		last[s.Name] = s
	}
	return false
}

// TokenFault is two holds of a name whose tokens contradict the order of their grants.
type TokenFault struct {
	// Earlier was granted before Later. If Equal, the order may be unknown.
	Earlier, Later *Span
	// Equal says that both have one token, or that claims of two workers have one. Otherwise Later's is smaller than Earlier's.
	Equal bool
}

// TokenFaults are the holds whose tokens contradict the order of grants, each with the first such hold. A hold was certainly granted after another if its
// claim was requested when the other had been got. If both were requested at the same time, only equal tokens are wrong. A hold that is handed on
// inside a process is as old as its claim: another worker's claim may have replaced that unseen. Readers are not compared with each other: those of a
// process share a claim and its token.
func (h *History) TokenFaults() []TokenFault {
	var all []TokenFault
	got := make(map[string][]*Span) // by name, in order of Got
	for _, s := range h.Spans {
		if s.Token == 0 {
			continue
		}
		for _, o := range got[s.Name] {
			asked := s.ClaimAsked
			if o.claim() == s.claim() {
				asked = s.Asked
			}
			equal := o.Token == s.Token || o.Token/driver.TokensPerGrant == s.Token/driver.TokensPerGrant && o.Worker != s.Worker
			falls := o.Got < asked && o.Token > s.Token
			if (equal || falls) && !(o.Mode.Shared && s.Mode.Shared) {
				all = append(all, TokenFault{Earlier: o, Later: s, Equal: equal})
				break
			}
		}
		got[s.Name] = append(got[s.Name], s)
	}
	return all
}

// Describe explains the fault to people.
func (f *TokenFault) Describe(h *History) string {
	what := "is smaller than an earlier one"
	if f.Equal {
		what = "was granted twice"
	}
	return fmt.Sprintf("a token of %q %s:\n  %s\n  %s\n  meanwhile: %s", f.Later.Name, what, h.Line(f.Earlier), h.Line(f.Later), h.Notes(f.Earlier.Asked, f.Later.Got))
}

// ReturnedLate is how long after its context's end an attempt returned, or hung until its worker was killed or the history ended, without the time
// in which its worker stalled. 0: it returned in time, or its worker was stopped then.
func (h *History) ReturnedLate(s *Span) time.Duration {
	return h.late(s.Worker, s.Limit, h.Over(s))
}

// ToldLate is how long after its deadline, or after it was got if that was later, a hold's worker was told of its end, released it or was killed,
// without the time in which it stalled. 0: the hold ended earlier or has no deadline, or its worker was stopped then.
func (h *History) ToldLate(s *Span) time.Duration {
	if s.Deadline == 0 {
		return 0
	}
	return h.late(s.Worker, max(s.Deadline, s.Got), cmp.Or(s.Told, s.Releasing, s.Killed, h.End))
}

func (h *History) late(worker string, limit, at Instant) time.Duration {
	stopped := slices.ContainsFunc(h.Stops(worker), func(s Spell) bool { return s.From <= at && s.To >= limit })
	if limit == 0 || stopped {
		return 0
	}
	late := at.Sub(limit)
	for _, e := range h.Events {
		if e.Kind == Stalled && e.Worker == worker {
			late -= max(0, min(e.At, at).Sub(max(e.Limit, limit)))
		}
	}
	return max(0, late)
}

// Write is a holder's attempt to update the protected resource. Attempts that failed for reasons other than the token do not count.
type Write struct {
	At      Instant
	By      *Span
	Refused bool
	// Over is the newest holder before the write that began after By; nil if there is none.
	Over *Span
}

// Writes returns all writes in order.
func (h *History) Writes() (all []Write) {
	for _, e := range h.Events {
		w := Write{At: e.At, Refused: e.Kind == Refused}
		if e.Kind != Wrote && (e.Kind != Refused || e.Class != ClassStale) {
			continue
		}
		for _, s := range h.Spans { // ordered by begin
			switch {
			case s.Worker == e.Worker && s.Op == e.Op:
				w.By = s
			case w.By != nil && s.Name == w.By.Name && s.Got > w.By.Got && s.Got < e.At:
				w.Over = s
			}
		}
		if w.By != nil {
			all = append(all, w)
		}
	}
	return all
}
