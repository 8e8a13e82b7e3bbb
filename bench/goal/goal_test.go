package goal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/goal"
	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/run"
	"github.com/lockport/lockport/bench/stage"
	"github.com/lockport/lockport/internal/lab/report"
)

// TestGoals has each goal name what exists: a library that takes part in the scenario. Every row has goals, and no two have one ID.
func TestGoals(t *testing.T) {
	scenarios := make(map[string]bool)
	for _, s := range run.Scenarios(run.Full) {
		scenarios[s] = true
	}
	families := make(map[string]bool)
	for _, f := range stage.Families {
		families[f.Name] = true
	}
	ids, rows := make(map[string]bool), make(map[string]bool)
	for _, g := range goal.All() {
		require.False(t, ids[g.ID], g.ID)
		ids[g.ID], rows[g.Row] = true, true
		require.Contains(t, goal.Rows, g.Row)
		require.True(t, families[g.Family], g.ID)
		require.False(t, g.AtMost != nil && g.AtLeast != nil, g.ID)
		require.NotEmpty(t, g.Scenarios, g.ID)
		takesPart := func(library, scenario string) {
			require.True(t, scenarios[scenario], g.ID)
			l, err := lib.Find(g.Family, library)
			require.NoError(t, err, g.ID)
			require.True(t, l.In(scenario), "%s: %s has no part in %s", g.ID, library, scenario)
		}
		for _, s := range g.Scenarios {
			takesPart(g.Ours, s)
			for _, other := range g.To {
				if g.ToScenario != "" {
					s = g.ToScenario
				}
				takesPart(other, s)
			}
		}
	}
	require.Len(t, rows, len(goal.Rows))
}

// results has one figure of some rows, three turns each.
func results(scenario string, rows map[string][]float64) result.Scenario {
	s := result.Scenario{Name: scenario, Family: "redis"}
	for name, each := range rows {
		row := result.Row{Library: name}
		for turn, v := range each {
			row.Add(turn, []result.Value{{Name: "f", Best: "more", V: v}})
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

func TestEvaluate(t *testing.T) {
	r := &result.Results{Scenarios: []result.Scenario{
		results("a", map[string][]float64{"lockport": {10, 20, 30}, "x": {5, 1, 3}, "y": {1, 10, 15}, "idle": {0, 0, 0}}),
		results("b", map[string][]float64{"lockport": {6, 7, 8}, "x": {6, 6, 6}}),
	}}
	bound := func(v float64) *float64 { return &v }
	evaluate := func(g goal.Goal, scenarios ...string) goal.Outcome {
		g.Family, g.Figure, g.Ours, g.Scenarios = "redis", "f", "lockport", scenarios
		return goal.Evaluate([]goal.Goal{g}, []*result.Results{{}, r})[0]
	}
	o := evaluate(goal.Goal{To: []string{"x", "y"}, AtLeast: bound(2)}, "a")
	require.Equal(t, report.Spread{N: 3, Median: 2, Low: 2, High: 2}, o.Spread, "the best of each turn")
	require.Equal(t, goal.Yes, o.Reached)
	require.Equal(t, 3, o.Turns)
	require.Equal(t, goal.No, evaluate(goal.Goal{To: []string{"x", "y"}, AtLeast: bound(2.1)}, "a").Reached)
	require.Equal(t, goal.NotCertain, evaluate(goal.Goal{To: []string{"x"}, AtLeast: bound(9)}, "a").Reached)
	require.Equal(t, goal.NotCertain, evaluate(goal.Goal{AtMost: bound(20)}, "a").Reached)
	require.Equal(t, goal.Reported, evaluate(goal.Goal{}, "a").Reached)
	require.Equal(t, goal.NotMeasured, evaluate(goal.Goal{AtMost: bound(1)}, "c").Reached)
	require.Equal(t, goal.NotMeasured, evaluate(goal.Goal{To: []string{"z"}, AtMost: bound(1)}, "a").Reached)
	require.Equal(t, goal.NotMeasured, evaluate(goal.Goal{To: []string{"idle"}, AtMost: bound(1)}, "a").Reached, "to nothing there is no ratio")

	o = evaluate(goal.Goal{To: []string{"x"}, ToScenario: "b", Beyond: true, AtMost: bound(24)}, "a")
	require.Equal(t, report.Spread{N: 3, Median: 14, Low: 4, High: 24}, o.Spread)
	require.Equal(t, goal.Yes, o.Reached)

	o = evaluate(goal.Goal{To: []string{"x"}, AtLeast: bound(1)}, "a", "b")
	require.Equal(t, "b", o.Scenario, "of several the worst counts")
	require.Equal(t, "a", evaluate(goal.Goal{To: []string{"x"}, AtMost: bound(1)}, "a", "b").Scenario)
}
