package page

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/pages"
)

func figure(name, unit string, v float64) measure.Figure {
	return measure.Figure{Name: name, Unit: unit, Each: []float64{v}}
}

// sample has one scenario with four libraries, one of which failed.
func sample() *Results {
	s := Scenario{Name: "cycle", Title: "a <cycle>"}
	for i, name := range []string{"lockport", "slow <one>", "bare"} {
		r := measure.Row{Library: name, Kind: []string{"ours", "theirs", "floor"}[i]}
		for turn := range 3 {
			r.Add(turn, figure("p50", "µs", float64((i*i*1000+20)*(turn+1))), figure("allocations", "each", 12))
		}
		s.Rows = append(s.Rows, r)
	}
	s.Rows = append(s.Rows, measure.Row{Library: "bad", Kind: "theirs", Failed: []string{"turn 1: why"}})
	all := []lib.Library{{Name: "lockport"}, {Name: "slow <one>"}, {Name: "bare"}, {Name: "bad"}}
	return &Results{Made: time.Unix(1e9, 0).UTC(), Turns: 3, Scenarios: []Scenario{s}, Libraries: all}
}

func TestText(t *testing.T) {
	text, err := Text(map[string]*Results{"redis": sample()}, false)
	require.NoError(t, err)
	require.Regexp(t, "(?s)^## Goals.*[|]slow <one>[|]2,040[|]\n.*bad: failed turns: 1, such as turn 1: why\\.", text)
	text, err = Text(map[string]*Results{"redis": sample()}, true)
	require.NoError(t, err)
	require.Contains(t, text, "A <cycle>")
	require.Contains(t, text, `
||p50 µs|allocations each|
|---|---:|---:|
|lockport|40|12|
|slow <one>|2,040|12|
|bare|8,040|12|

`)
}

// docs/benchmarks.md matches the stored results.
func TestPage(t *testing.T) {
	runs := make(map[string]*Results)
	for _, f := range lib.Families {
		runs[f.Name] = new(Results)
		require.NoError(t, json.Unmarshal([]byte(pages.Read(t, "benchmarks/"+f.Name+".json")), runs[f.Name]))
	}
	text, err := Text(runs, false)
	require.NoError(t, err)
	pages.Holds(t, "benchmarks.md", "measurements", text)
}

func TestOutcome(t *testing.T) {
	scenario := func(name string, rows map[string][3]float64) Scenario {
		s := Scenario{Name: name}
		for library, each := range rows {
			r := measure.Row{Library: library, Kind: map[string]string{"x": lib.Theirs, "y": lib.Floor}[library]}
			for turn, v := range each {
				r.Add(turn, figure("f", "", v))
			}
			s.Rows = append(s.Rows, r)
		}
		return s
	}
	r := &Results{Scenarios: []Scenario{
		scenario("a", map[string][3]float64{"lockport": {10, 20, 30}, "x": {5, 1, 3}, "y": {1, 10, 15}, "idle": {0, 0, 0}}),
		scenario("b", map[string][3]float64{"lockport": {6, 7, 8}, "x": {6, 6, 6}}),
	}}
	late := measure.Row{Library: "late"}
	late.Add(2, figure("f", "", 60))
	r.Scenarios[0].Rows = append(r.Scenarios[0].Rows, late)
	failing := scenario("failing", map[string][3]float64{"lockport": {1, 2, 3}})
	failing.Rows[0].Failed = []string{"turn 4: why"}
	failing.Rows = append(failing.Rows, scenario("", map[string][3]float64{"x": {1, 1, 1}}).Rows...)
	r.Scenarios = append(r.Scenarios, failing, Scenario{Name: "failed", Rows: []measure.Row{{Library: ours, Failed: []string{"turn 1: why"}}}},
		Scenario{Name: "once", Rows: []measure.Row{{Library: ours, Turns: []int{1}, Figures: []measure.Figure{figure("f", "", 1)}}}})
	for _, c := range []struct {
		scenarios, to, is string
		bound             float64
		beyond, cell      string
	}{
		{"a", peers, "≥", 2, "", "yes: 2×"}, // the best of each turn
		{"a", peers, "≥", 2.1, "", "**no**: 2×"},
		{"a", bare, "≥", 2, "", "yes: 2× (2 to 10)"},
		{"a", "x", "≥", 9, "", "not certain: 10× (2 to 20)"},
		{"a", "", "≤", 20, "", "not certain: 20 (10 to 30)"},
		{"a", "", "≤", 10, "", "not certain: 20 (10 to 30)"}, // one turn of three
		{"c", "", "≤", 1, "", notMeasured},
		{"a", "z", "≤", 1, "", notMeasured},
		{"a", "idle", "≤", 1, "", notMeasured},     // no ratio to 0
		{"a", "late", "≥", 0.5, "", "yes: 0.500×"}, // figures of one turn
		{"a", "", "≤", 22, "b", "yes: +13 (4 to 22)"},
		{"a", "", "≤", 22, "once", "yes: +19"}, // of the turns in which both were measured
		{"b a", "", "≤", 22, "b", "yes: +13 (4 to 22)"},
		{"a b", "x", "≥", 1, "", "yes: 1.17× (1 to 1.33)"}, // the worst of several scenarios counts
		{"a b", "x", "≤", 1, "", "**no**: 10× (2 to 20)"},
		{"failing b", "", "≤", 8, "", "not certain: 2 (1 to failed)"},
		{"failing", "", "≤", 3, "", "not certain: 2 (1 to failed)"}, // a failed turn misses the goal
		{"failing", "x", "≥", 1, "", "not certain: 1× (failed to 3)"},
		{"a", "", "≤", 30, "failing", "not certain: +18 (9 to failed)"},
		{"a failed", "", "≤", 30, "", "**no**: failed"},
		{"a failed", "x", "≥", 1, "", "**no**: failed"},
	} {
		g := Goal{Scenarios: c.scenarios, Figure: "f", Ours: ours, To: c.to, Is: c.is, Bound: c.bound, Beyond: c.beyond}
		require.Equal(t, c.cell, g.cell(g.outcome(r)), "%+v", c)
	}
}
