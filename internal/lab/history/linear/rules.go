package linear

import (
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport/internal/lab/history"
)

// Rules state when a hold without an orderly release may end: Margin after its deadline, which is the last renewal's sending plus the TTL; with
// Sessions, at its worker's death; with Gone, at the fault. The client may undo its claim from the deadline on, or from when it is told of a loss.
type Rules struct {
	// Margin is the time between a deadline and when the server may grant the lock again.
	Margin time.Duration
	// Sessions says that a claim ends with its worker, and Gone that the fault may end claims.
	Sessions, Gone bool
}

// operations returns two operations for each hold of a name. It begins between the call of Acquire and its return, and ends once, from some time on.
// Failed acquisitions have none: whatever they held for a while only delays others.
func (r Rules) operations(h *history.History, spans []*history.Span) (all []porcupine.Operation) {
	var faults []history.Spell
	if r.Gone {
		faults = h.Injections()
	}
	for _, s := range spans {
		fault := faultDuring(faults, s)
		b := &begin{hold: s, asked: s.Asked, ends: h.End + 1, void: fault != 0 && s.HandedOn() && fault <= s.Got}
		if b.void && s.Mode.Shared {
			continue // only the claim's first reader is judged
		}
		if s.Mode.Permits > 0 && !s.HandedOn() {
			b.asked = s.ClaimAsked // the permit may have been taken since then
		}
		all = append(all, porcupine.Operation{Input: b, Call: int64(b.asked), Return: int64(s.Got)})
		if from := r.end(h, s, fault); from != 0 && from <= h.End && !b.void {
			b.ends = max(from, s.Asked)
			to := h.End
			if s.Clean() {
				to = s.Released
			}
			all = append(all, porcupine.Operation{Input: end{b}, Call: int64(b.ends), Return: int64(to)})
		}
	}
	return all
}

// end is the earliest time at which s may have ended without a mistake of the server; 0 if none. The hold may also have ended later.
func (r Rules) end(h *history.History, s *history.Span, fault history.Instant) (from history.Instant) {
	may := func(at history.Instant) {
		if at != 0 && (from == 0 || at < from) {
			from = at
		}
	}
	may(s.Releasing) // a failed Release may have taken effect, or takes effect when the client undoes the claim
	may(fault)       // even after an orderly release: the claim may have been handed on inside its process
	if s.Told != 0 { // the client undoes a claim at its deadline, or when told of a loss
		may(s.Told)
		may(awake(h, s.Worker, s.Deadline))
	}
	if s.Deadline != 0 && !s.Clean() {
		may(s.Deadline.Add(r.Margin))
	}
	if r.Sessions && !s.Clean() {
		may(s.Killed)
	}
	return from
}

// faultDuring is when one of the faults first affects the claim of s, 0 if none does.
func faultDuring(faults []history.Spell, s *history.Span) history.Instant {
	for _, f := range faults {
		if f.To >= s.ClaimAsked {
			return max(f.From, s.ClaimAsked)
		}
	}
	return 0
}

// awake returns at, or when the worker was resumed if it was stopped then.
func awake(h *history.History, worker string, at history.Instant) history.Instant {
	for _, stop := range h.Stops(worker) {
		if stop.From <= at && at <= stop.To {
			return stop.To
		}
	}
	return at
}
