package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	historytext "github.com/lockport/lockport/internal/lab/history/text"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// storm is a cell played as a storm.
func storm(o report.Class) play.Cell { return play.Cell{Fault: "storm", Outcome: o} }

// somewhere is an environment with deadlines and tokens.
var somewhere = environment.Environment{TTL: 2 * time.Second, Margin: 110 * time.Millisecond, Tokens: true}

// breaches returns what is wrong with a phase of a cell.
func breaches(t *testing.T, a environment.Environment, c play.Cell, text string) string {
	t.Helper()
	v := peer.Must(faults.Judge(&play.Played{Environment: &a, Cell: &c, Events: historytext.Events(text), Storm: c.Fault == "storm"}))(t)
	return strings.Join(v.Breaches, "\n")
}

// well is a phase without a fault in it: one worker waits for another, and acquires the lock after the injection.
const well = `
	0    w1/1 asked
	10   w1/1 got token 1024 deadline 1890
	20   w2/1 asked limit 5000
	100  w1/1 releasing deadline 1890
	110  w1/1 released
	115  w2/1 got token 2048 deadline 2000
	200  w2/1 releasing deadline 2000
	201  w2/1 released
	300  - injected
	310  w3/1 asked limit 5000
	900  - healed
	910  w3/1 got token 3072 deadline 2750
	1000 w3/1 releasing deadline 2750
	1001 w3/1 released
	1100 - noted: the end
`

// TestAHoldThatEndsBeforeItIsSeen: a worker stopped meanwhile records when it asked as the deadline, even where holds have none.
func TestAHoldThatEndsBeforeItIsSeen(t *testing.T) {
	sessions, cell := environment.Environment{TTL: time.Second, Tokens: true}, play.Cell{Outcome: report.Fenced}
	const seen = "1 w1/1 asked\n 900 w1/1 got token 1024 deadline %s\n 901 w1/1 told: removed\n"
	require.Empty(t, breaches(t, sessions, cell, fmt.Sprintf(seen, "1")))
	require.Contains(t, breaches(t, sessions, cell, fmt.Sprintf(seen, "1.001")), "has a deadline: true")
}

func TestWhatIsWrong(t *testing.T) {
	const safe, unavailable = report.Safe, report.Unavailable
	swap := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(well) }
	for _, c := range []struct {
		outcome    report.Class
		want, text string
	}{
		{safe, "", well},
		{unavailable, "", well + "400 - away\n 800 - back\n"},
		{safe, "two believed they held one lock", swap("115  w2/1 got", "50 w2/1 got")},
		{safe, "was granted twice", swap("token 2048", "token 1024")},
		{safe, "is smaller than an earlier one", swap("token 3072", "token 512")},
		{safe, "has the token 0", swap("token 2048", "")},
		{safe, "the cell does not say when it injects its fault", swap("injected", "nothing")},
		{safe, "no worker waited for a lock that another worker held", swap("20   w2/1 asked", "105 w2/1 asked")},
		{safe, "no worker waited for a lock that another worker held", swap("w2/1", "w1/2")},
		{safe, "no worker waited for a lock that another worker held", swap("20   w2/1 asked", "20   w2/1 asked shared")},
		{safe, "releasing with a deadline in 1.95s", swap("1000 w3/1 releasing deadline 2750", "1000 w3/1 releasing deadline 2950")},
		{safe, "got with a deadline in 1.8915s, which is more than the TTL of 2s less the margin of 110ms", swap("got token 1024 deadline 1890", "got token 1024 deadline 1901.5", "20 ", "20.1 ")},
		{safe, "w2/1 on \"n\": has a deadline: false", swap("deadline 2000", "")},
		{safe, "extended with a deadline in 1.95s", well + "150 w2/1 extended deadline 2100"},
		{safe, "Valid was true 5ms after the deadline", well + "1895 w1/1 checked valid deadline 1890"},
		{safe, "a hold was lost 1s before its deadline", well + "1100 w1/2 asked name m\n 1110 w1/2 got name m token 1024 deadline 2990\n 1990 w1/2 told name m: removed"},
		{safe, "w1/2 (token 1024) was not told of its end for 1.101s after its deadline", well + "1100 w1/2 asked name m\n 1110 w1/2 got name m token 1024 deadline 2990\n 4091 w1/2 told name m: silence"},
		{safe, "w1/2: the acquisition went on for 1.001s after its context's end", well + "1100 w1/2 asked limit 1200\n 2201 w1/2 failed: no"},
		{unavailable, "does not say from when to when", well},
		{unavailable, "it lasted 0s, and somebody wanted a lock: true", well + "400 - away\n 400 - back\n"},
		{unavailable, "it lasted 99ms, and somebody wanted a lock: true", well + "400 - away\n 499 - back\n"},
		{unavailable, "it lasted 200ms, and somebody wanted a lock: false", strings.ReplaceAll(well, "310  w3/1 asked", "700 w3/1 asked") + "400 - away\n 600 - back\n"},
		{unavailable, "got a lock 510ms after that began", well + "400 - away\n 1000 - back\n"},
		{unavailable, "got a lock 510ms after that began", well + "400 - away\n"},
	} {
		wrong := breaches(t, somewhere, storm(c.outcome), c.text)
		require.Equal(t, c.want == "", wrong == "", wrong)
		require.Contains(t, wrong, c.want, c.text)
	}
	require.Empty(t, breaches(t, somewhere, play.Cell{}, swap("injected", "nothing")), "a script need not inject anything")
	v := peer.Must(faults.Judge(&play.Played{Environment: &somewhere, Cell: &play.Cell{Outcome: safe}, Lost: 2}))(t)
	require.Contains(t, v.Breaches, "2 updates were lost behind a fence")
}

func TestAFenceIsSeenToRefuse(t *testing.T) {
	const both = `
		0  w1/1 asked
		10 w1/1 got token 1024 deadline 1890
		15 - injected
		20 w2/1 asked
		30 w2/1 got token 2048 deadline 1900
		40 w2/1 wrote token 2048 value 1
		50 w1/1 %s
	`
	judged := func(end string) string {
		return breaches(t, somewhere, play.Cell{Outcome: report.Fenced}, fmt.Sprintf(both, end))
	}
	require.Empty(t, judged("refused token 1024 class stale: stale"))
	for _, end := range []string{"wrote token 1024 value 2", "refused token 1024 class other: the register is gone"} {
		require.Contains(t, judged(end), "the fence refused nobody", end)
	}
}
