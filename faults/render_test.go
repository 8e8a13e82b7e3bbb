package faults_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

func samples(ms ...float64) (s history.Samples) {
	for _, ms := range ms {
		s.Add(time.Duration(ms * float64(time.Millisecond)))
	}
	return s
}

// stated is a small table: two arrangements that differ, and one like the first.
func stated() []faults.Environment {
	common := faults.Common(false)
	like := []play.Cell{
		{Fault: "server-away", Outcome: play.Unavailable, Why: "nobody | reaches it"},
		{Fault: "clock-set", Outcome: play.UnsafeFenced, Why: "It expires early.", Recovery: 5 * time.Second},
		{Fault: "master-killed", Outcome: play.UnsafeFenced, Argued: true, Why: "it has not copied"},
		{Fault: "node-killed", Why: "there are others"},
	}
	return []faults.Environment{
		{environment.Environment{Name: "one", Title: "one server (replicas=1), alone", Backend: "redis", TTL: 2 * time.Second, Tokens: true,
			Margin: 110 * time.Millisecond, RemovalNotice: 500 * time.Millisecond}, append([]play.Cell{common[0], common[1]}, like...)},
		{environment.Environment{Name: "five", Title: "five servers", Backend: "postgres", TTL: 1500 * time.Millisecond, Tokens: true, Sessions: true}, []play.Cell{
			common[0],
			{Fault: "holder-stopped", Why: "it stays its own"},
			{Fault: "holder-cut", Outcome: play.UnsafeFenced, Argued: true, Why: "both sides close"},
			{Fault: "holder-slow", Outcome: play.UnsafeFenced, Why: "it is slow"},
			{Fault: "holder-silent", Outcome: play.Unavailable, Why: "it is silent"},
			{Fault: "split-brain", Outcome: play.Unsafe, Why: "two majorities"},
		}},
		{environment.Environment{Name: "new", Title: "a newer | one", Backend: "redis", TTL: time.Minute, Tokens: true}, like},
	}
}

// measured are figures in which all is as it must be, save in what spoil makes worse: it gets those of a cell.
func measured(spoil func(cell string, f *history.Figures)) faults.Measured {
	m := faults.Measured{Run: faults.Run{Seed: 7, Machine: "2 processors, linux/amd64", Duration: "2h3m0s", Versions: map[string]string{"redis": "7.0", "go": "go1.26"}}}
	all := stated()
	for i := range all[:2] {
		for j := range all[i].Cells {
			c := &all[i].Cells[j]
			key := faults.CellKey(&all[i].Environment, c)
			if key == "one/server-away" {
				continue // not run
			}
			f := history.Figures{Phases: 100, Faults: 300, Acquisitions: 2000, Silent: 25, Paused: 500, Wrote: 1000, LostBare: 1,
				Recovery: samples(1.25, 20.4999, 2001.6), LateReturn: samples(99)}
			switch {
			case c.Fault == "holder-killed":
				f.Takeover, f.RemovalNotice, f.TellingAfter = samples(40), samples(50), samples(60)
			case !c.Outcome.IsSafe() && !c.Argued:
				f.Overlapped, f.Overlaps = 3, 4
			}
			if c.Fault == "clock-set" {
				f.Takeover = samples(4000) // within what is stated of recovery
			}
			if c.Outcome == play.Unsafe {
				f.TokenFaults, f.LostFenced = 11, 12 // as is stated
			}
			spoil(key, &f)
			m.Add(&all[i].Environment, c, f)
		}
	}
	return m
}

func asItMust(string, *history.Figures) {}

// plain is a page without what is there for its looks: line breaks in a text, and what fills cells up.
func plain(page string) string { return regexp.MustCompile(`[ \n]+`).ReplaceAllString(page, " ") }

// none is the end of a row of the table of common faults that has as many before.
func none(before int) string { return strings.Repeat("– | ", len(faults.Common(false))-before) }

func TestRenderWhatIsStated(t *testing.T) {
	page := faults.Render(stated(), faults.Measured{})
	for _, want := range []string{
		"| arrangement | what it is | unsafe | unsafe but fenced | unavailable | safe | | ----------- | ------------------------------ | --- | --- | --- | ---: | " +
			"| [one] | one server (replicas=1), alone | – | clock-set, master-killed | server-away | 3 | " +
			"| [five] | five servers | split-brain | holder-cut, holder-slow | holder-silent | 2 | " +
			`| [new] | a newer \| one | – |`,
		"Not run yet: what follows is stated, and nothing of it measured.",
		"- **holder-stopped**: *safe*. A process that was stopped (SIGSTOP) for longer than its TTL finds its hold ended before it looks at it again. On [five]: it stays its own. -",
		"before the server does. On [five] *unsafe but fenced* by argument: both sides close. -",
		"- **all-cut**: *unavailable*. Nobody reaches the servers: all holds end in time, and nobody acquires. | arrangement | holder-killed |",
		"| [one] | safe | safe | " + none(2) + "| [five] | safe | safe | **fenced** | away | **fenced** | " + none(5) + "*fenced* is",
		"### One server (replicas=1), alone Backend [redis](backends/redis.md), TTL 2 s, fencing tokens. `go test ./faults -run 'TestCells/one$' -v` runs it. " +
			"- **clock-set**: *unsafe but fenced*. It expires early. - **master-killed**: *unsafe but fenced* by argument. It has not copied. " +
			"- **server-away**: *unavailable*. Nobody | reaches it. - **node-killed**: *safe*. There are others. ### Five servers",
		"TTL 1 s 500 ms, fencing tokens. `go test ./faults -run 'TestCells/five$' -v` runs it. Of the [faults of workers and their network](#faults-of-workers-and-their-network), " +
			"holder-silent is unavailable; holder-cut and holder-slow are unsafe but fenced. - **split-brain**",
		"TTL 1 min, fencing tokens. `go test ./faults -run 'TestCells/new$' -v` runs it. What is stated is what is stated of [one], for the same reasons. ### What was measured Not run. [one]: #one-server-replicas1-alone",
	} {
		require.Contains(t, plain(page), want)
	}
	require.Equal(t, 1, strings.Count(plain(page), "It expires early."), "a reason is given once")
}

func TestRenderWhatWasMeasured(t *testing.T) {
	page := faults.Render(stated(), measured(asItMust))
	for _, want := range []string{
		"in 0 of 600 phases of faults that are stated to be safe or to leave locks unavailable, and under 3 of 3 faults that are stated to be unsafe " +
			"(where that is not argued alone). Not run: 5 faults.",
		"| [one] | safe 0/100 | safe 0/100 | " + none(2) + "| [five] | safe 0/100 | safe 0/100 | **fenced** 0/100 | away 0/100 | **fenced** 3/100 | –",
		"- **clock-set**: *unsafe but fenced*, two believed in 3 of 100 phases. It expires early.",
		"- **master-killed**: *unsafe but fenced* by argument, two believed in 0 of 100 phases. It has",
		"- **server-away**: *unavailable*, not run. Nobody",
		"- **node-killed**: *safe*, two believed in 0 of 100 phases (2,000 holds). There are others.",
		"`go test ./faults -run 'TestCells/new$' -v` runs it. Not run. What is",
		"One run of 2 h 3 min with the seed 7: 1,100 phases, 3,300 faults, 22,000 acquisitions, on 2 processors, linux/amd64; go 1.26 and redis 7.0.",
		"| [one] | 10,000 | 0 of 300 | 0 of 10,000 | 0 of 5,000 | 5 | 125 of 125 | 2,500 of 2,500 | 0 | " +
			"| [five] | 12,000 | 0 of 300 | 0 of 10,000 | 0 of 5,000 | 6 | 150 of 150 | 3,000 of 3,000 | 0 |",
		"| [one] | 40 / 4,000 / 4,000 ≤ 3,000, 5,000 (2) | 21 / 2,002 / 2,002 ≤ 3,000, 5,000 (15) | 50 / 50 / 50 ≤ 500 (1) | 60 / 60 / 60 ≤ 110 (1) | 99 / 99 / 99 ≤ 100, 1,000 (5) | " +
			"| [five] | 40 / 40 / 40 ≤ 100 (1) | 21 / 2,002 / 2,002 ≤ 2,500 (18) | 50 / 50 / 50 (1) | 60 / 60 / 60 (1) | 99 / 99 / 99 ≤ 100, 1,000 (6) |",
		"No figure misses what is stated.",
	} {
		require.Contains(t, plain(page), want)
	}
	require.Equal(t, 1, strings.Count(page, "✗"), "in the words that explain it")
}

// Without tokens there is no fence, and nothing to be said of either.
func TestRenderWithoutTokens(t *testing.T) {
	all := stated()
	all[1].Tokens = false
	page := plain(faults.Render(all, measured(asItMust)))
	require.Contains(t, page, "TTL 1 s 500 ms, no fencing tokens.")
	require.Contains(t, page, "| [five] | 12,000 | 0 of 300 | – | – | 6 |")
}

// Reasons are left out only where all is stated that is stated of an earlier arrangement.
func TestRenderOfTwins(t *testing.T) {
	const twins = "What is stated is what is stated of [one], for the same reasons."
	require.Contains(t, plain(faults.Render(stated(), faults.Measured{})), twins)
	for name, change := range map[string]func(a *faults.Environment){
		"backend":   func(a *faults.Environment) { a.Backend = "redlock" },
		"reason":    func(a *faults.Environment) { a.Cells[1].Why = "It expires late." },
		"outcome":   func(a *faults.Environment) { a.Cells[1].Outcome = play.Unsafe },
		"argument":  func(a *faults.Environment) { a.Cells[1].Argued = true },
		"one more":  func(a *faults.Environment) { a.Cells[1].Fault = "clock-stopped" },
		"one alone": func(a *faults.Environment) { a.Cells = a.Cells[:1] },
	} {
		all := stated()
		all[2].Cells = slices.Clone(all[2].Cells)
		change(&all[2])
		page := plain(faults.Render(all, faults.Measured{}))
		require.NotContains(t, page, twins, name)
		require.Equal(t, 2, strings.Count(page, "Nobody | reaches it."), name)
	}
}

// What is not as it must be is marked where it stands, and named at the end.
func TestRenderWhatIsMissed(t *testing.T) {
	for _, c := range []struct {
		name, cell string
		spoil      func(f *history.Figures)
		want       []string
	}{
		{"overlap of a common fault", "one/holder-stopped", func(f *history.Figures) { f.Overlapped = 1 },
			[]string{"in **1 of 600 ✗** phases", "safe **1/100 ✗**", "| **1 of 300 ✗** |", "- [one], holder-stopped: stated to be safe, and two believed in 1 of 100 phases."}},
		{"overlap of a fault of its own", "one/node-killed", func(f *history.Figures) { f.Overlapped = 1 },
			[]string{"in **1 of 600 ✗** phases", "*safe*, **two believed in 1 of 100 phases (2,000 holds) ✗**.", "| **1 of 300 ✗** |",
				"- [one], node-killed: stated to be safe, and two believed in 1 of 100 phases."}},
		{"unsafe, and not shown", "one/clock-set", func(f *history.Figures) { f.Overlapped = 0 },
			[]string{"under **2 of 3 ✗** faults", "*unsafe but fenced*, **two believed in 0 of 100 phases ✗**.",
				"- [one], clock-set: stated to be unsafe but fenced, and two believed in 0 of 100 phases."}},
		{"tokens", "one/clock-set", func(f *history.Figures) { f.TokenFaults = 2 }, []string{"| **2 of 10,000 ✗** |", "- [one]: 2 of 10,000 tokens came twice or fell."}},
		{"updates", "one/clock-set", func(f *history.Figures) { f.LostFenced = 2 }, []string{"| **2 of 5,000 ✗** |", "- [one]: 2 of 5,000 updates were lost behind the fence."}},
		{"silence", "five/split-brain", func(f *history.Figures) { f.SilentLate = 1 }, []string{"| **149 of 150 ✗** |", "- [five]: 149 of 150 silences were told in time."}},
		{"pause", "five/split-brain", func(f *history.Figures) { f.PausedValid = 1 }, []string{"| **2,999 of 3,000 ✗** |", "- [five]: 2,999 of 3,000 first looks after a pause were right."}},
		{"hung", "five/split-brain", func(f *history.Figures) { f.Hung = 1 }, []string{"| **1 ✗** |", "- [five]: 1 acquisitions hung."}},
		{"takeover, by the TTL", "one/holder-killed", func(f *history.Figures) { f.Takeover = samples(10, 3000.1) },
			[]string{"| 3,000 / 4,000 / **4,000** ≤ 3,000, 5,000 ✗ (3) |", "- [one], lock of a killed holder: up to 3,000 ms under holder-killed (stated: 3,000 ms)."}},
		{"takeover, by the session", "five/holder-killed", func(f *history.Figures) { f.Takeover = samples(101) },
			[]string{"| **101** / **101** / **101** ≤ 100 ✗ (1) |", "- [five], lock of a killed holder: up to 101 ms under holder-killed (stated: 100 ms)."}},
		{"recovery, by the fault that has the smaller bound", "one/node-killed", func(f *history.Figures) { f.Recovery = samples(1, 4000) },
			[]string{"/ **4,000** ≤ 3,000, 5,000 ✗ (14) |", "- [one], recovery: up to 4,000 ms under node-killed (stated: 3,000 ms)."}},
		{"removal", "one/holder-killed", func(f *history.Figures) { f.RemovalNotice = samples(501) },
			[]string{"| **501** / **501** / **501** ≤ 500 ✗ (1) |", "- [one], told of removal: up to 501 ms under holder-killed (stated: 500 ms)."}},
		{"telling", "one/holder-killed", func(f *history.Figures) { f.TellingAfter = samples(111) },
			[]string{"| **111** / **111** / **111** ≤ 110 ✗ (1) |", "- [one], told of silence: up to 111 ms under holder-killed (stated: 110 ms)."}},
		{"late return of most", "five/holder-cut", func(f *history.Figures) { f.LateReturn = samples(300) },
			[]string{"| 99 / **300** / 300 ≤ 100, 1,000 ✗ (6) |", "- [five], late return: 300 ms for 99 in 100 (stated: 100 ms)."}},
		{"late return of one", "five/holder-cut", func(f *history.Figures) { f.LateReturn = samples(append(make([]float64, 200), 1001)...) },
			[]string{"/ **1,001** ≤ 100, 1,000 ✗ (206) |", "- [five], late return: up to 1,001 ms under holder-cut (stated: 1,000 ms)."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := plain(faults.Render(stated(), measured(func(cell string, f *history.Figures) {
				if cell == c.cell {
					c.spoil(f)
				}
			})))
			for _, want := range c.want {
				require.Contains(t, page, want)
			}
			require.NotContains(t, page, "No figure misses")
			require.Contains(t, page, "**Missed:**")
		})
	}
}

// A fault that was measured and is stated no more is named, for its figures are in the sums.
func TestRenderOfAnOlderRun(t *testing.T) {
	page := faults.Render(stated()[1:], measured(asItMust))
	require.Contains(t, plain(page), "redis 7.0. It knew faults that are stated no more: one/clock-set, one/holder-killed,")
	require.NotContains(t, faults.Render(stated(), measured(asItMust)), "no more:")
}

// The page is rendered from the file of figures, and must not depend on who wrote that.
func TestRenderOfWhatWasRead(t *testing.T) {
	m := measured(asItMust)
	text, err := json.Marshal(m)
	require.NoError(t, err)
	var read faults.Measured
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, faults.Render(stated(), m), faults.Render(stated(), read))
}

// The page is read in terminals, too: texts are in short lines, and what is to be copied is on one.
func TestRenderForTerminals(t *testing.T) {
	for _, line := range strings.Split(faults.Render(faults.All(), faults.Measured{}), "\n") {
		if !strings.HasPrefix(line, "|") {
			require.LessOrEqual(t, len([]rune(line)), 118, line)
			require.Zero(t, strings.Count(line, "`")%2, line)
		}
	}
}

// Each fault of each arrangement is on the page, and each link on it leads to a heading.
func TestRenderedPageIsWhole(t *testing.T) {
	page := faults.Render(faults.All(), faults.Measured{})
	for _, a := range faults.All() {
		_, section, found := strings.Cut(page, "\n### "+strings.ToUpper(a.Title[:1])+a.Title[1:]+"\n")
		require.True(t, found, a.Title)
		section, _, _ = strings.Cut(section, "\n### ")
		for _, c := range a.Cells {
			twin := strings.Contains(section, "is what is stated of")
			shared := strings.Contains(page, "| "+c.Fault+" ") // a column of the common ones
			require.True(t, twin || shared || strings.Contains(section, "- **"+c.Fault+"**: *"+c.Outcome.String()+"*"), "%s under %s", a.Name, c.Fault)
		}
	}
	whole, err := os.ReadFile(filepath.Join("..", "docs", "guarantees.md"))
	require.NoError(t, err)
	anchors := make(map[string]int)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(whole), -1) {
		name := strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "", "=", "", ".", "", "`", "").Replace(strings.ToLower(heading[1]))
		anchors[name]++
		require.Equal(t, 1, anchors[name], name)
	}
	links := regexp.MustCompile(`(?:\]\(|\]: )#([^)\n]*)`).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(links), len(faults.All()))
	for _, link := range links {
		require.Equal(t, 1, anchors[link[1]], link[1])
	}
	for _, name := range regexp.MustCompile(`\[([a-z-]+)\][^(:]`).FindAllStringSubmatch(page, -1) {
		require.Contains(t, page, "\n["+name[1]+"]: #")
	}
}
