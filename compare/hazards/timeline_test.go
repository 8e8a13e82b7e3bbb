package hazards

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/report"
)

// A timeline begins with the first request. It has a lane for each worker, ordered by start.
func TestTimeline(t *testing.T) {
	r := judged(t, `
		0 w1/0 spawned; 5 w3/0 spawned; 6 w2/0 spawned; 50 w1/7 asked name another; 60 w1/7 got name another; 70 w1/7 releasing name another; 100 w1/1 asked
		110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 - injected; 1010 w1/0 stopped; 1020 - noted: the leader of w2 is killed
		1500 w1/1 extended token 1024 deadline 2500; 2100 w2/1 got token 2048 deadline 4000; 2200 w2/1 wrote token 2048
		2250 w1/0 continued; 2300 w1/1 refused token 1024 class stale; 2310 - healed; 2400 w3/1 asked; 2410 w3/1 failed class held
		2420 w3/2 asked; 2500 w3/2 failed class held; 3100 w3/3 asked; 3200 w2/1 releasing token 2048 deadline 4000; 3210 w2/1 released
		3220 w3/0 killed; 1200 w2 cut: silent; 1300 w2 mended; 3000 w2 cut: cut off
	`)
	require.Equal(t, report.Run{
		Class: report.Fenced, Observed: r.Observed, Took: 3120,
		Lanes: []report.Lane{
			{
				Client: "A", Stopped: []report.Band{{From: 910, To: 2150}}, Writes: []report.Write{{At: 2200, Refused: true, Late: true}},
				Spans: []report.Span{{Asked: 0, Held: true, Got: 10, Until: 2400, Token: 1024, Ending: "the deadline passed"}},
			},
			{
				Client: "B", Cut: []report.Band{{From: 1100, To: 1200, What: "silent"}, {From: 2900, To: 3120, What: "cut off"}},
				Writes: []report.Write{{At: 2100}},
				Spans:  []report.Span{{Asked: 20, Held: true, Got: 2000, Until: 3100, Token: 2048, Ending: "released"}},
			},
			{
				Client: "C", Killed: 3120,
				Spans: []report.Span{{Asked: 2300, Until: 2400, Ending: "somebody else has it"}, {Asked: 3000, Until: 3120, Ending: "killed"}},
			},
		},
		Faults:   []report.Band{{From: 900, To: 2210}},
		Marks:    []report.Mark{{At: 920, What: "the leader of B is killed"}},
		Overlaps: []report.Overlap{{From: 2000, To: 2400, Older: "A", Newer: "B", Tokens: [2]report.Token{1024, 2048}}},
	}, r)
}
