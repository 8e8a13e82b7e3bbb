package history

import (
	"cmp"
	"slices"
	"time"
)

// ReturnedLate is how long after its context's end an attempt returned, or hung until its worker was killed or the history ended. 0: it returned in
// time, or its worker was stopped then.
func (h *History) ReturnedLate(s *Span) time.Duration {
	return h.late(s.Worker, s.Limit, h.Over(s))
}

// ToldLate is how long after its deadline, or after it was got if that was later, a hold's worker was told of its end, released it or was killed.
// 0: the hold ended earlier or has no deadline, or its worker was stopped then.
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
	return max(0, at.Sub(limit))
}
