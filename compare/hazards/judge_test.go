package hazards

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
	byhand "github.com/lockport/lockport/internal/lab/history/text"
	"github.com/lockport/lockport/internal/lab/report"
)

// judged is what a history shows of the lock "n". The history is in the format of package text; a semicolon ends an event too.
func judged(t *testing.T, text string, found ...history.Event) report.Run {
	h, err := history.NewHistory(append(byhand.Events(strings.ReplaceAll(text, ";", "\n")), found...))
	require.NoError(t, err)
	return judge(h, "n")
}

// Beginnings of several histories.
const (
	// Both believe from 2100 to 2500.
	bothBelieve = `
		0 w1/0 spawned; 5 w2/0 spawned; 100 w1/1 asked; 110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 - injected
		1500 w1/1 extended token 1024 deadline 2500; 2100 w2/1 got token 2048 deadline 4000; 2900 - healed; 3000 w1/1 told
	`
	// The older hold has ended when the newer one begins.
	oneAfterAnother = `
		0 w1/0 spawned; 5 w2/0 spawned; 100 w1/1 asked; 110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 - injected; 1010 w1/0 stopped
		2100 w2/1 got token 2048 deadline 4000; 2150 w1/0 continued; 2160 - healed; 3000 w1/1 told
	`
)

// A history determines the class of a run.
func TestJudge(t *testing.T) {
	writes := func(newer, older string) string {
		return "2200 w2/1 " + newer + " token 2048; 2300 w1/1 " + older + " token 1024\n"
	}
	tokens := func(older, newer int) string {
		return fmt.Sprintf("100 w1/1 asked; 110 w1/1 got token %d deadline 2500; 2000 w2/1 asked; 2100 w2/1 got token %d deadline 4000; 2200 w2/1 wrote token %[2]d; 2300 w1/1 ", older, newer)
	}
	for _, c := range []struct {
		name, history string
		class         report.Class
		late          string
		says          string
	}{
		{"nothing", oneAfterAnother, report.Safe, "", "No two clients believed they held the lock at once."},
		{
			"fenced", bothBelieve + writes("wrote", "refused class stale"), report.Fenced, refused,
			"A and B both believed they held the lock for 400ms; their tokens are 1024 and 2048. " +
				"What A wrote after B had the lock was refused: its token is the older one.",
		},
		{
			"landed", bothBelieve + writes("wrote", "wrote"), report.Unsafe, landed,
			"What A wrote after B had the lock landed despite its token.",
		},
		{"nobody wrote", bothBelieve, report.Unsafe, "", ""},
		{"only the newer one wrote", bothBelieve + "2200 w2/1 wrote token 2048", report.Unsafe, "", ""},
		{"the older one wrote in time", bothBelieve + "2000 w1/1 wrote token 1024", report.Unsafe, "", ""},
		{
			"the older one wrote in time, and was refused later", bothBelieve + "2000 w1/1 wrote token 1024\n" + writes("wrote", "refused class stale"),
			report.Fenced, refused, "",
		},
		{"refused for another reason", bothBelieve + writes("wrote", "refused class other"), report.Unsafe, "", ""},
		{
			"late and refused, although nobody was wrong", oneAfterAnother + writes("wrote", "refused class stale"), report.Safe, refused,
			"What A wrote after B had the lock was refused",
		},
		{"late and landed, although nobody was wrong", oneAfterAnother + writes("wrote", "wrote"), report.Safe, landed, "landed despite"},
		{"tokens that fall", tokens(2048, 1024) + "refused class stale", report.Unsafe, refused, "their tokens are 2048 and 1024"},
		{
			"tokens that fall later", bothBelieve + writes("wrote", "refused class stale") + "2600 w2/1 releasing; 2610 w3/1 asked; 2620 w3/1 got token 512 deadline 4000",
			report.Unsafe, refused, "",
		},
		{"refused once, and landed later", bothBelieve + writes("wrote", "refused class stale") + "2350 w1/1 wrote token 1024", report.Unsafe, landed, "landed despite"},
		{
			"unsafe first, and fenced later", bothBelieve + writes("wrote", "wrote") + "; 2400 w3/1 asked; 3500 w3/1 got token 3072 deadline 6000; 3600 w3/1 wrote token 3072; " +
				"3700 w2/1 refused token 2048 class stale",
			report.Unsafe, landed, "A and B both believed they held the lock for 400ms",
		},
		{
			"believed past the deadline", "100 w1/1 asked; 110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 2100 w2/1 got token 2048 deadline 4000; " +
				"2150 w1/1 checked token 1024 deadline 2000 valid; 2200 w2/1 wrote token 2048; 2300 w1/1 refused token 1024 class stale; 2400 w1/1 told",
			report.Fenced, refused, "A and B both believed they held the lock for 50ms",
		},
		{"one token for both", tokens(1024, 1024) + "wrote token 1024", report.Unsafe, landed, "both have the token 1024"},
		{
			"no tokens", tokens(0, 0) + "wrote",
			report.Unsafe, landed, "there are no tokens to tell them apart. What A wrote after B had the lock landed: without a token, nothing can refuse it.",
		},
		{
			"nobody had it while the fault lasted", "1000 - injected; 1100 w1/1 asked; 1200 w1/1 failed class unavailable; 2000 - healed",
			report.Unavailable, "", "",
		},
		{
			"nobody asked while the fault lasted", "900 w1/1 asked; 950 w1/1 failed class held; 1000 - injected; 2000 - healed; 2100 w1/2 asked; 2200 w1/2 got",
			report.Safe, "", "",
		},
		{"somebody had it before the fault was over", "1000 - injected; 1100 w1/1 asked; 1900 w1/1 got; 2000 - healed", report.Safe, "", ""},
		{
			"somebody had it all the time", "100 w2/1 asked; 200 w2/1 got; 1000 - injected; 1100 w1/1 asked; 1200 w1/1 failed class held; 2000 - healed; 2100 w2/1 releasing",
			report.Safe, "", "",
		},
		{
			"its holder lost it", "100 w2/1 asked; 200 w2/1 got deadline 1500; 1000 - injected; 1100 w1/1 asked; 1900 w1/1 failed class timed; 2000 - healed",
			report.Unavailable, "", "",
		},
		{
			"away is what counts, where that is said", "1000 - injected; 1050 w1/1 asked; 1080 w1/1 got; 1090 w1/1 releasing; 1100 - away; 1200 w1/2 asked; " +
				"1800 w1/2 failed class unavailable; 1900 - back; 2000 - healed",
			report.Unavailable, "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(c.history, "spawned") {
				c.history = "0 w1/0 spawned; 0 w2/0 spawned; " + c.history
			}
			r := judged(t, c.history)
			require.Equal(t, c.class, r.Class, r.Observed)
			require.Equal(t, c.late, r.LateWrite)
			require.Contains(t, r.Observed, c.says)
		})
	}
}

// A script's findings count beside the history, and come first in the text.
func TestFoundCounts(t *testing.T) {
	found := func(class report.Class, says string) history.Event {
		return history.Event{At: byhand.At(1), Kind: history.Found, Class: history.Class(class), Err: says}
	}
	r := judged(t, oneAfterAnother, found(report.Safe, "First."), found(report.Stuck, "Then 2."))
	require.Equal(t, report.Stuck, r.Class)
	require.Equal(t, "First. Then 2.", r.Observed)
	require.Equal(t, report.Unsafe, judged(t, oneAfterAnother, found(report.Fenced, "A believed.")).Class, "nothing was refused")
	r = judged(t, bothBelieve, found(report.Stuck, "First."))
	require.Equal(t, report.Unsafe, r.Class)
	require.Contains(t, r.Observed, "First. A and B both believed")
}

// A timeline begins with the first request, and has tokens that a JSON number could not hold. It has a lane for each worker, ordered by start.
func TestTimeline(t *testing.T) {
	r := judged(t, `
		0 w1/0 spawned; 5 w3/0 spawned; 6 w2/0 spawned; 50 w1/7 asked name another; 60 w1/7 got name another; 70 w1/7 releasing name another; 100 w1/1 asked
		110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 - injected; 1010 w1/0 stopped; 1020 - noted: the leader of w2 is killed
		1500 w1/1 extended token 1024 deadline 2500; 2100 w2/1 got token 9223372036854775809 deadline 4000; 2200 w2/1 wrote token 9223372036854775809
		2250 w1/0 continued; 2300 w1/1 refused token 1024 class stale; 2310 - healed; 2400 w3/1 asked; 2410 w3/1 failed class held
		2420 w3/2 asked; 2500 w3/2 failed class held; 3100 w3/3 asked; 3200 w2/1 releasing token 9223372036854775809 deadline 4000; 3210 w2/1 released
		3220 w3/0 killed; 1200 w2 cut: silent; 1300 w2 mended; 3000 w2 cut: cut off
	`)
	require.Equal(t, report.Run{
		Class: report.Fenced, Observed: r.Observed, LateWrite: refused, Took: 3120,
		Lanes: []report.Lane{
			{
				Client: "A", Stopped: []report.Band{{From: 910, To: 2150}}, Writes: []report.Write{{At: 2200, Refused: true, Late: true}},
				Spans: []report.Span{{Asked: 0, Held: true, Got: 10, Until: 2400, Token: "1024", Ending: "the deadline passed"}},
			},
			{
				Client: "B", Cut: []report.Band{{From: 1100, To: 1200, What: "silent"}, {From: 2900, To: 3120, What: "cut off"}},
				Writes: []report.Write{{At: 2100}},
				Spans:  []report.Span{{Asked: 20, Held: true, Got: 2000, Until: 3100, Token: "9223372036854775809", Ending: "released"}},
			},
			{
				Client: "C", Killed: 3120,
				Spans: []report.Span{{Asked: 2300, Until: 2400, Ending: "somebody else has it"}, {Asked: 3000, Until: 3120, Ending: "killed"}},
			},
		},
		Faults:   []report.Band{{From: 900, To: 2210}},
		Marks:    []report.Mark{{At: 920, What: "the leader of B is killed"}},
		Overlaps: []report.Overlap{{From: 2000, To: 2400, Older: "A", Newer: "B", Tokens: [2]string{"1024", "9223372036854775809"}}},
	}, r)
}
