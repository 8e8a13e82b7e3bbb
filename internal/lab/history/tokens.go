package history

import "fmt"

// TokenFault is two holds of a name whose tokens do not tell which came first.
type TokenFault struct {
	// Earlier and Later are in the order of their grants where that is certain, as it is unless Equal.
	Earlier, Later *Span
	// Equal says that the two have one token, or claims of two workers one; otherwise Later's is not greater than Earlier's.
	Equal bool
}

// TokenFaults are the holds whose tokens break the order of grants of their name, each with one of those that it should be greater than. A hold was certainly
// granted after another if its claim was asked for when the other had been got. Of holds that were asked for at the same time, only
// equal tokens are wrong. A hold that is handed on inside a process is as old as its claim, which another's may have replaced unseen. Of readers, none is
// compared with another: those of a process share a claim and its token.
func (h *History) TokenFaults() []TokenFault {
	var all []TokenFault
	got := make(map[string][]*Span) // by name, in the order in which they were got
	for _, s := range h.Spans {
		if s.Token == 0 {
			continue
		}
		var same, greatest *Span
		for _, o := range got[s.Name] {
			asked := s.ClaimAsked
			if o.claim() == s.claim() {
				asked = s.Asked
			}
			switch {
			case o.Mode.Shared && s.Mode.Shared:
			case o.Token == s.Token, o.Token/holdsPerClaim == s.Token/holdsPerClaim && o.Worker != s.Worker:
				same = o
			case o.Got < asked && o.Token > s.Token && (greatest == nil || o.Token > greatest.Token):
				greatest = o
			}
		}
		if same != nil {
			all = append(all, TokenFault{Earlier: same, Later: s, Equal: true})
		}
		if greatest != nil {
			all = append(all, TokenFault{Earlier: greatest, Later: s})
		}
		got[s.Name] = append(got[s.Name], s)
	}
	return all
}

// Describe tells people what is wrong.
func (f *TokenFault) Describe(h *History) string {
	what := "is smaller than that of an earlier one"
	if f.Equal {
		what = "was given to two"
	}
	return fmt.Sprintf("a token of %q %s:\n  %s\n  %s\n  meanwhile: %s", f.Later.Name, what, h.Line(f.Earlier), h.Line(f.Later), h.Notes(f.Earlier.Asked, f.Later.Got))
}
