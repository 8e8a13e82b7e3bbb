package render

import (
	"strings"

	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
	"github.com/lockport/lockport/internal/lab/report"
)

// panels are what a family's picture shows: the headline of these scenarios.
var panels = []struct{ scenario, about string }{
	{"cycle", "uncontended cycle"}, {"own-64", "64 own names"}, {"contend-64", "64 goroutines, one name"}, {"contend-4x16", "4 processes of 16, one name"},
	{"handoff-other", "hand-off to a process"}, {"waiters-1000", "requests of 1,000 waiters"}, {"held-10000", "requests of 10,000 held locks"},
	{"takeover", "takeover"},
}

// Picture shows how many times better lockport did than the others and the bare commands, in SVG. Empty if there is nothing to show.
func Picture(r *result.Results, family stage.Family) []byte {
	c := report.Chart{
		Title: family.Title + ": lockport beside others", Tick: func(v float64) string { return Number(v) + "×" },
		Axis: "how many times better lockport is: 1 is as good, less is worse; whiskers are what the turns gave at least and at most",
	}
	for _, p := range panels {
		s, _ := r.Scenario(family.Name, p.scenario)
		ours, ok := s.Row("lockport")
		figure, _ := ours.Figure(headline(s))
		for _, row := range s.Rows {
			if !ok || row.Kind != "theirs" && row.Kind != "floor" || row.Library == pings {
				continue
			}
			spread := row.Ratio(figure.Name, ours)
			if figure.Best == "more" {
				spread = ours.Ratio(figure.Name, row)
			}
			if spread.Low > 0 {
				c.Bars = append(c.Bars, report.Bar{
					Title: row.Library, About: p.about, Value: spread.Median, From: spread.Low, To: spread.High, Figure: Number(spread.Median) + "×",
					Hollow: row.Kind == "floor",
				})
			}
		}
	}
	if len(c.Bars) == 0 {
		return nil
	}
	return []byte(strings.TrimRight(string(c.SVG()), "\n") + "\n")
}
