package render_test

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/bench/render"
	"github.com/lockport/lockport/bench/result"
)

// sample has one scenario of three libraries, one of which failed.
func sample() *result.Results {
	s := result.Scenario{Name: "cycle", Title: "a <cycle>", Family: "redis", Setup: "one server"}
	for i, name := range []string{"lockport", "slow", "bare"} {
		row := result.Row{Library: name, Kind: []string{"ours", "theirs", "floor"}[i]}
		for turn := range 3 {
			row.Add(turn, []result.Value{result.Less("p50", "µs", float64((i*i*1000+20)*(turn+1))), result.Less("allocations", "each", 12)})
		}
		s.Rows = append(s.Rows, row)
	}
	s.Rows = append(s.Rows, result.Row{Library: "bad", Kind: "theirs", NotRun: "it failed in every turn", Failed: []string{"turn 1: why"}})
	s.Compare()
	return &result.Results{Made: time.Unix(1e9, 0).UTC(), Turns: 3, Scenarios: []result.Scenario{s}}
}

func TestTable(t *testing.T) {
	require.Equal(t, `|  | p50 µs | allocations each | p50: × lockport | p50: × bare |
| --- | ---: | ---: | ---: | ---: |
| lockport | 40 | 12 |  | 0.005 |
| slow | 2,040 | 12 | 51 | 0.254 |
| bare | 8,040 | 12 | 201 |  |
| bad |  |  |  |  |

bad: it failed in every turn. bad: 1 turns failed, such as turn 1: why.
`, render.Table(sample().Scenarios[0]))
}

func TestNumber(t *testing.T) {
	for n, text := range map[float64]string{0: "0", 3: "3", 1.234: "1.23", 0.01234: "0.0123", 0.001234: "0.0012", 99.94: "99.9", 123.4: "123", 1234567: "1,234,567", -4321: "-4,321"} {
		require.Equal(t, text, render.Number(n))
	}
}

// TestPage writes the tables twice: what people have written stays, and stays once.
func TestPage(t *testing.T) {
	docs := t.TempDir()
	file := filepath.Join(docs, "benchmarks.md")
	require.NoError(t, os.WriteFile(file, []byte("# Benchmarks\n\nBy hand.\n"), 0o644))
	r := sample()
	require.NoError(t, render.Page(r, docs))
	once, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(once), "By hand.\n")
	require.Contains(t, string(once), "| slow | 2,040 |")

	require.NoError(t, os.WriteFile(file, append(once, "Below.\n"...), 0o644))
	r.Scenarios[0].Rows = r.Scenarios[0].Rows[:1]
	require.NoError(t, render.Page(r, docs))
	twice, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(twice), "slow")
	require.Equal(t, 1, strings.Count(string(twice), "Beside other libraries"))
	require.True(t, strings.HasPrefix(string(twice), "# Benchmarks\n\nBy hand.\n"))
	require.True(t, strings.HasSuffix(string(twice), "Below.\n"))

	picture, err := os.ReadFile(filepath.Join(docs, "benchmarks", "redis.svg"))
	require.NoError(t, err)
	for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
}
