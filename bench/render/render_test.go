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
	for i, name := range []string{"lockport", "slow <one>", "bare"} {
		row := result.Row{Library: name, Kind: []string{"ours", "theirs", "floor"}[i]}
		for turn := range 3 {
			row.Add(turn, []result.Value{result.Less("p50", "µs", float64((i*i*1000+20)*(turn+1))), result.Less("allocations", "each", 12)})
		}
		s.Rows = append(s.Rows, row)
	}
	s.Rows = append(s.Rows, result.Row{Library: "bad", Kind: "theirs", NotRun: "it failed in every turn", Failed: []string{"turn 1: why"}})
	return &result.Results{Made: time.Unix(1e9, 0).UTC(), Turns: 3, Scenarios: []result.Scenario{s}}
}

func TestTable(t *testing.T) {
	require.Equal(t, `|  | p50 µs | allocations each | p50: × lockport | p50: × bare |
| --- | ---: | ---: | ---: | ---: |
| lockport | 40 | 12 |  | 0.005 |
| slow <one> | 2,040 | 12 | 51 | 0.254 |
| bare | 8,040 | 12 | 201 |  |
| bad |  |  |  |  |

bad: it failed in every turn. bad: turns that failed: 1, such as turn 1: why.
`, render.Table(sample().Scenarios[0]))
}

func TestNumber(t *testing.T) {
	for n, text := range map[float64]string{0: "0", 3: "3", 1.234: "1.23", 0.01234: "0.0123", 0.001234: "0.0012", 99.94: "99.9", 123.4: "123", 1234567: "1,234,567", -4321: "-4,321"} {
		require.Equal(t, text, render.Number(n))
	}
}

// TestPlace writes the page twice: what people have written stays, and stays once.
func TestPlace(t *testing.T) {
	docs := t.TempDir()
	folder := filepath.Join(docs, render.Folder)
	require.NoError(t, os.Mkdir(folder, 0o755))
	file := filepath.Join(docs, "benchmarks.md")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	read := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	write("# Benchmarks\n\nBy hand.\n")
	require.Error(t, render.Page(docs), "where is it to be?")
	write("# Benchmarks\n\nBy hand.\n\n" + render.Begin + render.End + "Below.\n")
	require.NoError(t, render.Page(docs))
	require.Contains(t, read(file), "| not measured |")

	r := sample()
	require.NoError(t, r.Write(filepath.Join(folder, "redis.json")))
	require.NoError(t, render.Page(docs))
	once := read(file)
	require.Contains(t, once, "| slow <one> | 2,040 |")
	require.NoError(t, render.Page(docs))
	require.Equal(t, once, read(file))

	picture := read(filepath.Join(folder, "redis.svg"))
	require.Contains(t, picture, "slow &lt;one&gt;")
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}

	r.Scenarios[0].Rows = r.Scenarios[0].Rows[:1]
	require.NoError(t, r.Write(filepath.Join(folder, "redis.json")))
	require.NoError(t, render.Page(docs))
	twice := read(file)
	require.NotContains(t, twice, "slow")
	require.Equal(t, 1, strings.Count(twice, "## Goals"))
	require.True(t, strings.HasPrefix(twice, "# Benchmarks\n\nBy hand.\n"))
	require.True(t, strings.HasSuffix(twice, "Below.\n"))
}

// TestPage holds docs/benchmarks.md and its pictures to the results that are there.
func TestPage(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	files, err := render.Files(docs)
	require.NoError(t, err)
	for name, must := range files {
		is, err := os.ReadFile(filepath.Join(docs, name))
		require.NoError(t, err)
		require.True(t, string(is) == must, "docs/%s has changed; write it anew: go run . -docs ../docs -page", name)
	}
	pictures, err := filepath.Glob(filepath.Join(docs, render.Folder, "*.svg"))
	require.NoError(t, err)
	for _, p := range pictures {
		require.Contains(t, files, filepath.Join(render.Folder, filepath.Base(p)), "nothing that was measured is shown by it")
	}
}

// TestGoals shows a goal that was reached, and one that was missed.
func TestGoals(t *testing.T) {
	r := sample()
	r.Scenarios[0].Rows[1].Library = "SET NX, EVALSHA"
	r.Scenarios[0].Rows[2].Library = "redislock"
	line := func(runs []*result.Results, beginning string) string {
		t.Helper()
		table := render.Goals(runs)
		for line := range strings.Lines(table) {
			if strings.HasPrefix(line, beginning) {
				return strings.TrimSpace(line)
			}
		}
		require.Fail(t, "there is no such line", "%s\n%s", beginning, table)
		return ""
	}
	runs := []*result.Results{r}
	require.Equal(t, "| p50, to redislock | ≤ 1× | yes: 0.005× | | | | | | |", line(runs, "| p50, to redislock"))

	r.Scenarios[0].Rows[0].Library, r.Scenarios[0].Rows[2].Library = "redislock", "lockport"
	require.Equal(t, "| p50, to redislock | ≤ 1× | **no**: 201× | | | | | | |", line(runs, "| p50, to redislock"))
}
