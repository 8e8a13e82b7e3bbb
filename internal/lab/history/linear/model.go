package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

// lock is the state of the lock that is compared with: who holds it, and the greatest token that it has given.
type lock struct {
	holder int // 0: nobody
	last   lockport.Token
}

// step is an operation: a hold begins, or it ends.
type step struct {
	hold *history.Span
	id   int // of the hold; not 0
	ends bool
	// void says that the hold may never have been one: it was handed on inside a process after the server had ended the claim, and
	// before the process was told.
	void bool
	// why says what ends the hold.
	why string
}

// apply is what a lock that works does, and whether it does that.
func (l lock) apply(s *step) (lock, bool) {
	switch {
	case s.ends && l.holder == s.id:
		return lock{0, l.last}, true
	case !s.ends && l.holder == 0 && (s.hold.Token == 0 || s.hold.Token > l.last):
		return lock{s.id, max(l.last, s.hold.Token)}, true
	}
	// A hold ends exactly once, so that it is never unclear what is still to come of one.
	return l, s.void
}

// String names the operation for people.
func (s *step) String() string {
	if s.ends {
		return fmt.Sprintf("%s ends: %s", s.hold, s.why)
	}
	return fmt.Sprintf("%s gets it", s.hold)
}

var model = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) {
		next, ok := state.(lock).apply(input.(*step))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string { return input.(*step).String() },
	DescribeState: func(state any) string {
		l := state.(lock)
		if l.holder == 0 {
			return fmt.Sprintf("free, last token %d", l.last)
		}
		return fmt.Sprintf("held by hold %d, last token %d", l.holder, l.last)
	},
}
