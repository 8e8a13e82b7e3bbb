package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

func samples(ms ...float64) (s history.Samples) {
	for _, ms := range ms {
		s.Add(time.Duration(ms * float64(time.Millisecond)))
	}
	return s
}

func stated() []faults.Environment {
	common := faults.Common(false)
	return []faults.Environment{
		{environment.Environment{Name: "one", Title: "one server (replicas=1), alone", Backend: "redis", TTL: 2 * time.Second, Tokens: true,
			Margin: 110 * time.Millisecond, RemovalNotice: 500 * time.Millisecond}, []play.Cell{common[0], common[1],
			{Fault: "clock-set", Outcome: report.Fenced, Why: "It expires early.", Recovery: 5 * time.Second},
			{Fault: "node-killed", Outcome: report.Safe, Why: "there are others"},
		}},
		{environment.Environment{Name: "five", Title: "five servers", Backend: "postgres", TTL: 1500 * time.Millisecond, Sessions: true}, []play.Cell{
			common[0],
			{Fault: "holder-cut", Outcome: report.Fenced, Argued: true, Why: "it has not copied"},
		}},
	}
}

// measured are figures that all meet the statements, except for what spoil changes in a cell.
func measured(cell string, spoil func(f *history.Figures)) faults.Measured {
	var m faults.Measured
	for _, e := range stated() {
		for _, c := range e.Cells {
			f := history.Figures{Phases: 100, Faults: 300, Acquisitions: 2000, Recovery: samples(1.25, 20.4999, 2001.6), LateReturn: samples(99)}
			if !c.Outcome.IsSafe() && !c.Argued {
				f.Overlapped = 3
			}
			if faults.CellKey(&e.Environment, &c) == cell {
				spoil(&f)
			}
			m.Add(&e.Environment, &c, f)
		}
	}
	return m
}

// The page names each figure that misses its statement.
func TestPageSaysWhatIsMissed(t *testing.T) {
	for _, c := range []struct {
		want, cell string
		spoil      func(f *history.Figures)
	}{
		{"holder-stopped: stated to be safe, but two believed it in 1 of 100 phases.", "one/holder-stopped", func(f *history.Figures) { f.Overlapped = 1 }},
		{"clock-set: stated to be unsafe but fenced, but two believed it in 0 of 100 phases.", "one/clock-set", func(f *history.Figures) { f.Overlapped = 0 }},
		{"holder-killed, killed holder: 3.001s (stated: 3s).", "one/holder-killed", func(f *history.Figures) { f.Takeover = samples(10, 3001) }},
		{"holder-killed, killed holder: 101ms (stated: 100ms).", "five/holder-killed", func(f *history.Figures) { f.Takeover = samples(101) }},
		{"node-killed, recovery: 4s (stated: 3s).", "one/node-killed", func(f *history.Figures) { f.Recovery = samples(1, 4000) }},
		{"holder-killed, told of removal: 501ms (stated: 500ms).", "one/holder-killed", func(f *history.Figures) { f.RemovalNotice = samples(501) }},
		{"holder-killed, told of silence: 111ms (stated: 110ms).", "one/holder-killed", func(f *history.Figures) { f.TellingAfter = samples(111) }},
		{"late return: 300ms for 99 in 100 (stated: 100ms).", "five/holder-cut", func(f *history.Figures) { f.LateReturn = samples(300) }},
		{"holder-cut, late return: 1.001s (stated: 1s).", "five/holder-cut", func(f *history.Figures) { f.LateReturn = samples(append(make([]float64, 200), 1001)...) }},
	} {
		name, _, _ := strings.Cut(c.cell, "/")
		page := faults.Render(stated(), measured(c.cell, c.spoil))
		require.Contains(t, page, "\n- **Missed**: ["+name+"], "+c.want+"\n")
		require.Equal(t, 1, strings.Count(page, "**Missed**"))
		require.NotContains(t, page, "No figure misses")
	}
}

// Each fault of each environment is on the page.
func TestPageIsWhole(t *testing.T) {
	page := faults.Render(faults.All(), faults.Measured{})
	for _, a := range faults.All() {
		_, section, found := strings.Cut(page, "\n### "+strings.ToUpper(a.Title[:1])+a.Title[1:]+"\n")
		require.True(t, found, a.Title)
		section, _, _ = strings.Cut(section, "\n### ")
		for _, c := range a.Cells {
			require.NotEmpty(t, c.Outcome, c.Fault)
			require.True(t, c.Harmless || strings.Contains(section, "\n|"+c.Fault+"|"+string(c.Outcome)), "%s under %s", a.Name, c.Fault)
		}
	}
}
