package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a timeline cannot draw in the room it has, it tells.
func TestTimelineTellsAll(t *testing.T) {
	r := Run{
		Took: 600,
		Lanes: []Lane{
			{Client: "A", Spans: []Span{{Held: true, Got: 1, Until: 590, Token: 1838382875473723392}}, Cut: []Band{{From: 10, To: 400, What: "slow"}}},
			{Client: "B", Spans: []Span{{Held: true, Asked: 5, Got: 6, Until: 595, Token: 1838382875508483072, Ending: "released"}}},
			{Client: "C", Spans: []Span{{Held: true, Asked: 300, Got: 300, Until: 300.1, Token: 1838382875508483073, Ending: "released"}}},
			{Client: "D"},
		},
		Marks:    []Mark{{At: 50, What: "a fault"}, {At: 20, What: "another"}, {At: 70, What: "a fault"}},
		Overlaps: []Overlap{{From: 6, To: 590, Older: "A", Newer: "B", Tokens: [2]Token{1838382875473723392, 1838382875508483072}}},
	}
	e := &entry{&Cell{Runs: []Run{r}, Hazard: "H1", Subject: "redis"}, "Redis"}
	both := e.timeline(0)
	for _, d := range []*drawing{both.Wide, both.Narrow} {
		var all []string
		for _, s := range d.Shapes {
			if s.Kind == "text" {
				all = append(all, s.Text)
			}
			if s.Class == "hold" {
				require.GreaterOrEqual(t, s.W, shortest, "what lasted a moment beside what lasted long can be seen")
			}
		}
		text := strings.Join(all, " ")
		require.Contains(t, text, "1 at 0.006 s: both A (…473723392) and B (…508483072) hold it, 584 ms")
		require.Contains(t, text, "2 at 0.01 s: A is slow")
		require.Contains(t, text, "3 at 0.02 s: another 4 at 0.05 s: a fault (2 times)", "in their order, and each once")
		require.NotContains(t, all, "D", "who did nothing with this lock")
		require.Contains(t, d.Desc, "3 at 0.02 s: another.", "also for those who cannot see it")
		require.Equal(t, d == both.Wide, strings.Contains(text, "token …508483073; held for 100 µs; released"))
	}
}

func TestTokenNames(t *testing.T) {
	run := func(tokens ...Token) *Run {
		r := &Run{Lanes: []Lane{{}}}
		for _, token := range tokens {
			r.Lanes[0].Spans = append(r.Lanes[0].Spans, Span{Token: token})
		}
		return r
	}
	require.Equal(t, "34816", tokenNames(run(34816, 35840))(34816))
	require.Equal(t, "…0512", tokenNames(run(1795072000000512, 1795072000001536))(1795072000000512))
	require.Equal(t, "17950729999", tokenNames(run(17950729999, 1795073))(17950729999), "of another length: not comparable if cut")
	require.Equal(t, "no token", tokenNames(run())(0))
}
