package faults_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
)

func rendered() ([]faults.Arrangement, faults.Measured) {
	arrangements := []faults.Arrangement{
		{Name: "one", Title: "one server", Backend: "redis", TTL: 2 * time.Second, Tokens: true, Cells: []faults.Cell{
			{Fault: "holder-killed", Why: "its TTL | passes"},
			{Fault: "all-cut", Outcome: faults.Unavailable, Why: "nobody reaches it"},
			{Fault: "clock-set", Outcome: faults.UnsafeFenced, Why: "it expires early"},
		}},
		{Name: "five", Title: "five servers", Backend: "redlock", TTL: 2 * time.Second, Cells: []faults.Cell{
			{Fault: "holder-killed", Why: "its TTL passes"},
			{Fault: "clocks-set", Outcome: faults.Unsafe, Argued: true, Why: "two majorities"},
		}},
	}
	var s faults.Samples
	for _, ms := range []float64{1.25, 20.4999, 2001.6} {
		s.Add(time.Duration(ms * float64(time.Millisecond)))
	}
	m := faults.Measured{Run: faults.Run{Seed: 7, Machine: "2 processors, Linux", Duration: "2h", Versions: map[string]string{"Redis": "7.0", "Go": "1.26"}}}
	cell := func(i, j int, f faults.Figures) { m.Add(&arrangements[i], &arrangements[i].Cells[j], f) }
	cell(0, 0, faults.Figures{Phases: 100, Faults: 300, Acquisitions: 12_345, Overlaps: 1, Silent: 50, SilentLate: 1, Paused: 1000, PausedValid: 2, Takeover: s})
	cell(0, 0, faults.Figures{Phases: 1, Acquisitions: 1, TokenFaults: 3, LostFenced: 4, Hung: 5})
	cell(0, 2, faults.Figures{Phases: 1, Faults: 1, Acquisitions: 2, Overlaps: 1})
	cell(1, 0, faults.Figures{Phases: 2, Acquisitions: 8})
	return arrangements, m
}

func TestRender(t *testing.T) {
	arrangements, m := rendered()
	text := faults.Render(arrangements, m)
	for _, want := range []string{
		"| arrangement | safe | unavailable | unsafe but fenced | unsafe |\n| --- | --- | --- | --- | --- |\n" +
			"| one server | holder-killed | all-cut | clock-set |  |\n| five servers | holder-killed |  |  | clocks-set |\n",
		"### one server\n\nBackend redis, TTL 2s, fencing tokens.\n\n| fault | stated | why | seen |\n| --- | --- | --- | --- |\n" +
			"| holder-killed | safe | its TTL \\| passes | 101 phases, 12,346 holds: 1 overlap |\n" +
			"| all-cut | unavailable | nobody reaches it | not run |\n" +
			"| clock-set | **unsafe but fenced** | it expires early | 1 phase, 2 holds: 1 overlap |\n",
		"### five servers\n\nBackend redlock, TTL 2s, no fencing tokens.\n\n",
		"| clocks-set | **unsafe** | two majorities | by argument, not shown |\n",
		"104 phases, 301 faults in 2h; seed 7; 2 processors, Linux, Go 1.26, Redis 7.0.\n",
		"| one server | 12,348 | 1 | 3 | 4 | 49 of 50 | 998 of 1,000 | 5 |\n",
		"| five servers | 8 | 0 | none | no fence | none seen | none seen | 0 |\n",
		"| one server | 21 / 2,002 / 2,002 (3) | – | – | – | – | – |\n",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, faults.Render(arrangements, faults.Measured{}), "Figures")
	require.Contains(t, faults.Render(arrangements, faults.Measured{}), "not run")
}

// The page is rendered from the file of figures, and must not depend on who wrote that.
func TestRenderOfWhatWasRead(t *testing.T) {
	arrangements, m := rendered()
	text, err := json.Marshal(m)
	require.NoError(t, err)
	var read faults.Measured
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, faults.Render(arrangements, m), faults.Render(arrangements, read))
}

func TestSplice(t *testing.T) {
	const begin, end = "<!-- rendered by package faults: begin -->", "<!-- rendered by package faults: end -->"
	page, err := faults.Splice("# Page\n\n"+begin+"\n"+end+"\n\nthe rest\n", "\ntext\n")
	require.NoError(t, err)
	require.Equal(t, "# Page\n\n"+begin+"\n\ntext\n\n"+end+"\n\nthe rest\n", page)
	again, err := faults.Splice(page, "text")
	require.NoError(t, err)
	require.Equal(t, page, again)
	for _, page := range []string{"", begin + "\n", end, end + begin + "\n"} {
		_, err = faults.Splice(page, "text")
		require.Error(t, err)
	}
}

func TestSamplesForPeople(t *testing.T) {
	var s faults.Samples
	require.Equal(t, "–", s.String())
	s.Add(-1500 * time.Microsecond)
	s.Add(9900 * time.Microsecond)
	s.Add(10_400 * time.Microsecond)
	require.Equal(t, "9.9 / 10 / 10 (3)", s.String())
}
