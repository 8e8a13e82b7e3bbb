package result_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/result"
)

func TestSpreadOf(t *testing.T) {
	require.Equal(t, result.Spread{}, result.SpreadOf(nil))
	require.Equal(t, result.Spread{Median: 2, Low: 1, High: 9}, result.SpreadOf([]float64{9, 1, 2}))
	require.Equal(t, result.Spread{Median: 2.5, Low: 1, High: 9}, result.SpreadOf([]float64{9, 1, 2, 3}))
}

// TestCompare has a machine that is ten times as slow in the second turn, in which one library failed: the ratios do not notice.
func TestCompare(t *testing.T) {
	row := func(library, kind string, each map[int]float64) result.Row {
		r := result.Row{Library: library, Kind: kind}
		for turn := range 3 {
			if v, ok := each[turn]; ok {
				r.Add(turn, []result.Value{result.Less("p50", "µs", v)})
			}
		}
		return r
	}
	s := result.Scenario{Rows: []result.Row{
		row("lockport", "ours", map[int]float64{0: 10, 1: 100, 2: 10}),
		row("theirs", "theirs", map[int]float64{0: 20, 1: 200}),
		row("bare", "floor", map[int]float64{1: 50, 2: 5}),
	}}
	s.Compare()
	of := func(row int) map[string]result.Spread {
		f, ok := s.Rows[row].Figure("p50")
		require.True(t, ok)
		return f.To
	}
	require.Equal(t, map[string]result.Spread{"bare": {Median: 2, Low: 2, High: 2}}, of(0))
	require.Equal(t, map[string]result.Spread{"lockport": {Median: 2, Low: 2, High: 2}, "bare": {Median: 4, Low: 4, High: 4}}, of(1))
	require.Equal(t, map[string]result.Spread{"lockport": {Median: 0.5, Low: 0.5, High: 0.5}}, of(2))

	file := filepath.Join(t.TempDir(), "results.json")
	is := &result.Results{Turns: 3, Scenarios: []result.Scenario{s}}
	require.NoError(t, is.Write(file))
	read, err := result.Read(file)
	require.NoError(t, err)
	require.Equal(t, is, read)
}
