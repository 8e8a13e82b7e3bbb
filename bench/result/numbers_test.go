package result_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/internal/lab/report"
)

// TestRatio has a machine that is ten times as slow in the second turn, in which one library failed: the ratios do not notice.
func TestRatio(t *testing.T) {
	row := func(library, kind string, each map[int]float64) result.Row {
		r := result.Row{Library: library, Kind: kind}
		for turn := range 3 {
			if v, ok := each[turn]; ok {
				r.Add(turn, []result.Value{result.Less("p50", "µs", v)})
			}
		}
		return r
	}
	ours := row("lockport", "ours", map[int]float64{0: 10, 1: 100, 2: 10})
	theirs := row("theirs", "theirs", map[int]float64{0: 20, 1: 200})
	bare := row("bare", "floor", map[int]float64{1: 50, 2: 5.0000004})
	require.Equal(t, report.Spread{N: 2, Median: 2, Low: 2, High: 2}, ours.Ratio("p50", bare), "of five digits")
	require.Equal(t, report.Spread{N: 2, Median: 2, Low: 2, High: 2}, theirs.Ratio("p50", ours))
	require.Equal(t, report.Spread{N: 1, Median: 4, Low: 4, High: 4}, theirs.Ratio("p50", bare))
	require.Equal(t, report.Spread{}, theirs.Ratio("p99", bare))
	require.Equal(t, []float64{-10, -100}, ours.Against("p50", theirs, "p50", result.Difference))
	none := row("none", "theirs", map[int]float64{0: 0, 1: 0, 2: 0})
	require.Empty(t, ours.Against("p50", none, "p50", result.Quotient), "to nothing there is no ratio")
}

func TestFiles(t *testing.T) {
	row := result.Row{Library: "lockport"}
	row.Add(0, []result.Value{result.More("cycles", "/s", 123456)})
	row.Add(1, []result.Value{result.More("cycles", "/s", 0.5)})
	run := func(family string) *result.Results {
		return &result.Results{
			Made: time.Unix(1e9, 0).UTC(), Turns: 2, Servers: map[string]string{"redis": "7"}, Libraries: []result.Library{{Family: family, Name: "lockport"}},
			Scenarios: []result.Scenario{{Name: "cycle", Family: family, Rows: []result.Row{row}}},
		}
	}
	folder := t.TempDir()
	whole := run("redis")
	etcd := run("etcd")
	whole.Libraries, whole.Scenarios = append(whole.Libraries, etcd.Libraries...), append(whole.Scenarios, etcd.Scenarios...)
	for _, family := range []string{"redis", "etcd"} {
		require.NoError(t, whole.Of(family).Write(filepath.Join(folder, family+".json")))
	}
	all, err := result.ReadAll(folder)
	require.NoError(t, err)
	require.Equal(t, []*result.Results{etcd, run("redis")}, all)
	text, err := os.ReadFile(filepath.Join(folder, "redis.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"Each": [123460,0.5]`, "short")

	s, ok := all[0].Scenario("etcd", "cycle")
	require.True(t, ok)
	_, ok = s.Row("another")
	require.False(t, ok)
	_, ok = all[0].Scenario("redis", "cycle")
	require.False(t, ok)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "bad.json"), []byte("{"), 0o600))
	_, err = result.ReadAll(folder)
	require.ErrorContains(t, err, "bad.json")
}
