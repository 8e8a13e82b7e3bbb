package linear

import (
	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport/internal/lab/history"
)

// operations are those of the holds of a name. A hold has two: it begins between the call of Acquire and its return, and it ends once, from
// some moment on. Acquisitions that failed have none: what they may have held for a while only makes others wait.
func operations(h *history.History, spans []*history.Span, stated Rules) []porcupine.Operation {
	r := rules{Rules: stated, history: h}
	if r.Gone {
		r.gone = h.Injections()
	}
	clients := make(map[string]int)
	var all []porcupine.Operation
	for i, s := range spans {
		client, known := clients[s.Worker]
		if !known {
			client = len(clients)
			clients[s.Worker] = client
		}
		struck, gone := r.struck(s)
		begins := step{hold: s, id: i + 1, void: gone && s.HandedOn() && struck <= s.Got}
		all = append(all, porcupine.Operation{ClientId: client, Input: &begins, Call: int64(s.Asked), Return: int64(s.Got)})
		from, why := r.end(s)
		if from == 0 || from > h.End {
			continue // nothing ends it before the end of the history: it keeps the lock
		}
		ends := step{hold: s, id: begins.id, ends: true, void: begins.void, why: why}
		to := h.End
		if s.Clean() {
			to = s.Released
		}
		all = append(all, porcupine.Operation{ClientId: client, Input: &ends, Call: int64(max(from, s.Asked)), Return: int64(to)})
	}
	return all
}

// rules say when a hold may end.
type rules struct {
	Rules
	history *history.History
	gone    []history.Spell // in which the server may end claims at any moment
}

// end is the earliest moment at which s may have ended without a mistake of the server's, and why; 0 if there is none. It is no
// obligation: the hold may have ended at any time after.
func (r *rules) end(s *history.Span) (from history.Instant, why string) {
	may := func(at history.Instant, reason string) {
		if at != 0 && (from == 0 || at < from) {
			from, why = at, reason
		}
	}
	// A Release that failed may have been carried out, or will be when the client undoes it.
	may(s.Releasing, "released")
	if s.Told != 0 {
		// The client undoes a claim that it has given up, which it does at the deadline or when it hears of a loss.
		may(s.Told, "lost, and undone by its client")
		may(r.awake(s.Worker, s.Deadline), "lost, and undone by its client")
	}
	if s.Deadline != 0 && !s.Clean() {
		may(s.Deadline.Add(r.Margin), "expired")
	}
	if r.Sessions && !s.Clean() {
		may(s.Killed, "its worker was killed, and its session ended")
	}
	if at, gone := r.struck(s); gone {
		// Also one that was released in order: it may have been handed on inside its process, without asking the server.
		may(at, "ended by the fault")
	}
	return from, why
}

// struck is the first moment of a fault that ends claims in the life of the claim of s.
func (r *rules) struck(s *history.Span) (history.Instant, bool) {
	for _, f := range r.gone {
		if f.To >= s.ClaimAsked {
			return max(f.From, s.ClaimAsked), true
		}
	}
	return 0, false
}

// awake is at, or when the worker was continued if it was stopped then.
func (r *rules) awake(worker string, at history.Instant) history.Instant {
	for _, stop := range r.history.Stops(worker) {
		if stop.From <= at && at <= stop.To {
			return stop.To
		}
	}
	return at
}
