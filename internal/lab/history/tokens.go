package history

import (
	"fmt"

	"github.com/lockport/lockport/driver"
)

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
