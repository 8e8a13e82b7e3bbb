package history

import (
	"cmp"
	"fmt"
	"slices"
)

// TokenFault is two holds of a name whose tokens do not tell which came first.
type TokenFault struct {
	// Earlier and Later are in the order of their grants where that is certain, as it is unless Equal.
	Earlier, Later Span
	// Equal says that the two have one token, or claims of two workers one; otherwise Later's is not greater than Earlier's.
	Equal bool
}

// TokenFaults are the holds whose tokens break the order of grants of their name, each with one of those that it should be greater than. That a hold was
// granted after another is certain if its claim was asked for when the other had been got; of holds that were asked for at one time only
// equal tokens are wrong. A hold that is handed on inside a process is as old as its claim, which another's may have replaced unseen. Holds without a token are left out.
func (h *History) TokenFaults() []TokenFault {
	byName := make(map[string][]*Span)
	byClaim := make(map[claim][]*Span)
	for i := range h.Spans {
		if s := &h.Spans[i]; s.Token != 0 {
			byName[s.Name] = append(byName[s.Name], s)
			byClaim[s.claim()] = append(byClaim[s.claim()], s)
		}
	}
	var all []TokenFault
	for _, spans := range byName {
		all = append(all, repeated(spans)...)
		all = append(all, falling(spans, func(s *Span) Instant { return s.ClaimAsked })...)
	}
	for _, spans := range byClaim {
		all = append(all, falling(spans, func(s *Span) Instant { return s.Asked })...)
	}
	slices.SortFunc(all, func(a, b TokenFault) int {
		return cmp.Or(cmp.Compare(a.Later.Got, b.Later.Got), cmp.Compare(a.Earlier.Got, b.Earlier.Got), cmp.Compare(a.Later.Name, b.Later.Name))
	})
	return slices.CompactFunc(all, func(a, b TokenFault) bool { return a.Earlier == b.Earlier && a.Later == b.Later })
}

// repeated are the holds, in the order in which they were got, whose token, or whose claim's, another had before.
func repeated(spans []*Span) []TokenFault {
	var all []TokenFault
	holds := make(map[uint64]*Span)
	claims := make(map[uint64]*Span)
	for _, s := range spans {
		hold, claim := uint64(s.Token), uint64(s.Token/holdsPerClaim)
		if o := holds[hold]; o != nil {
			all = append(all, TokenFault{Earlier: *o, Later: *s, Equal: true})
		} else if o := claims[claim]; o != nil && o.Worker != s.Worker {
			all = append(all, TokenFault{Earlier: *o, Later: *s, Equal: true})
		}
		holds[hold], claims[claim] = s, s
	}
	return all
}

// falling are the holds whose token is smaller than that of one that had been got before they were asked for.
func falling(spans []*Span, asked func(*Span) Instant) []TokenFault {
	got := slices.Clone(spans)
	slices.SortFunc(got, func(a, b *Span) int { return cmp.Compare(a.Got, b.Got) })
	later := slices.Clone(spans)
	slices.SortFunc(later, func(a, b *Span) int { return cmp.Compare(asked(a), asked(b)) })
	var all []TokenFault
	var greatest *Span // of those that were got before
	for _, s := range later {
		for len(got) > 0 && got[0].Got < asked(s) {
			if greatest == nil || got[0].Token > greatest.Token {
				greatest = got[0]
			}
			got = got[1:]
		}
		if greatest != nil && s.Token < greatest.Token {
			all = append(all, TokenFault{Earlier: *greatest, Later: *s})
		}
	}
	return all
}

// Describe tells people what is wrong. Times are since the start of the history.
func (f *TokenFault) Describe(h *History) string {
	what := "is smaller than that of an earlier one"
	if f.Equal {
		what = "was given to two"
	}
	text := fmt.Sprintf("a token of %q %s:\n  %s\n  %s", f.Later.Name, what, h.Line(&f.Earlier), h.Line(&f.Later))
	if notes := h.Notes(f.Earlier.Asked, f.Later.Got); notes != "" {
		text += "\n  meanwhile: " + notes
	}
	return text
}
