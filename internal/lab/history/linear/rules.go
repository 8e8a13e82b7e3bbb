package linear

import (
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport/internal/lab/history"
)

// Rules are what is stated of a backend and a fault. They say when a hold that was not released in order may end: Margin after its deadline, which is
// last-renewal-sent + TTL; after the death of its worker if Sessions; after the fault if Gone. Its client may undo it from the deadline on, or when it is
// told of a loss.
type Rules struct {
	// Margin is how much earlier a deadline is than the moment from which the server may grant the lock anew.
	Margin time.Duration
	// Sessions says that a claim ends with its worker, and Gone that the fault may end claims.
	Sessions, Gone bool
}

// operations are those of the holds of a name. A hold has two: it begins between the call of Acquire and its return, and it ends once, from
// some moment on. Acquisitions that failed have none: what they may have held for a while only makes others wait.
func (r Rules) operations(h *history.History, spans []*history.Span) []porcupine.Operation {
	var all []porcupine.Operation
	var begin []*step
	var faults []history.Spell
	if r.Gone {
		faults = h.Injections()
	}
	for _, s := range spans {
		struck := struck(faults, s)
		void := struck != 0 && s.HandedOn() && struck <= s.Got
		if void && s.Mode.Shared {
			continue // the first reader of the claim is judged
		}
		asked := s.Asked
		if s.Mode.Permits > 0 && !s.HandedOn() {
			asked = s.ClaimAsked // since then it keeps others out
		}
		begin = append(begin, &step{hold: s, void: void})
		all = append(all, porcupine.Operation{Input: begin[len(begin)-1], Call: int64(asked), Return: int64(s.Got)})
		from := r.end(h, s, struck)
		if from == 0 || from > h.End {
			continue // nothing ends it before the end of the history: it keeps the lock
		}
		to := h.End
		if s.Clean() {
			to = s.Released
		}
		all = append(all, porcupine.Operation{Input: &step{hold: s, ends: true, void: void}, Call: int64(max(from, s.Asked)), Return: int64(to)})
	}
	rank(begin)
	return all
}

// end is the earliest moment at which s may have ended without a mistake of the server's; 0 if there is none. The hold may also have ended later.
func (r Rules) end(h *history.History, s *history.Span, struck history.Instant) (from history.Instant) {
	may := func(at history.Instant) {
		if at != 0 && (from == 0 || at < from) {
			from = at
		}
	}
	may(s.Releasing) // a Release that failed may have been carried out, or will be when the client undoes it
	may(struck)      // also a hold that was released in order: it may have been handed on inside its process
	if s.Told != 0 { // the client undoes a claim that it has given up, at the deadline or when it hears of a loss
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

// struck is the first moment of one of the faults in the life of the claim of s, 0 if there is none.
func struck(faults []history.Spell, s *history.Span) history.Instant {
	for _, f := range faults {
		if f.To >= s.ClaimAsked {
			return max(f.From, s.ClaimAsked)
		}
	}
	return 0
}

// awake is at, or when the worker was continued if it was stopped then.
func awake(h *history.History, worker string, at history.Instant) history.Instant {
	for _, stop := range h.Stops(worker) {
		if stop.From <= at && at <= stop.To {
			return stop.To
		}
	}
	return at
}
