package report

import (
	"encoding/csv"
	"math"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestJSON(t *testing.T) {
	for name, r := range generated(t) {
		var b strings.Builder
		require.NoError(t, r.JSON(&b), name)
		again, err := Read(strings.NewReader(b.String()))
		require.NoError(t, err, name)
		var c strings.Builder
		require.NoError(t, again.JSON(&c), name)
		require.Equal(t, b.String(), c.String(), name)
	}
	_, err := Read(strings.NewReader(`{"version": 2}`))
	require.ErrorContains(t, err, "version 2")
	_, err = Read(strings.NewReader(`{}`))
	require.ErrorContains(t, err, "version 0")
	_, err = Read(strings.NewReader(`nonsense`))
	require.ErrorContains(t, err, "not the JSON of a report")
	_, err = Read(strings.NewReader(`{"version": 1} {`))
	require.Error(t, err)

	r := sample(t)
	r.Costs[1].Cycle.Ratio.High = math.Inf(1)
	require.EqualError(t, r.JSON(&strings.Builder{}), "report.Costs[1].Cycle.Ratio.High is no finite number")
}

func TestCSV(t *testing.T) {
	r := &Report{Costs: []Costs{{Subject: "redis, a", RoundTrip: &Quantiles{Samples: []float64{1.5, 2}}, Failover: &Failover{What: "the\nmaster", Time: Quantiles{Samples: []float64{1e6}}},
		Contention: []Contention{{Clients: 8, Processes: 4, Wait: Quantiles{Samples: []float64{7}}}}}}}
	var b strings.Builder
	require.NoError(t, r.CSV(&b))
	lines, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"subject", "scenario", "what", "unit", "sample"},
		{"redis, a", "cycle", "round trip", "us", "1.5"},
		{"redis, a", "cycle", "round trip", "us", "2"},
		{"redis, a", "contention", "wait, 8 clients in 4 processes", "us", "7"},
		{"redis, a", "failover", "the\nmaster", "ms", "1e+06"},
	}, lines)
}

func TestSummary(t *testing.T) {
	for name, r := range reports(t) {
		for line := range strings.SplitSeq(strings.TrimSuffix(r.Summary(), "\n"), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 100, name)
			require.NotContains(t, line, "\x1b", name)
		}
	}
	text := sample(t).Summary()
	require.Regexp(t, regexp.MustCompile(`(?m)^ +article +file +redis +redlock +etcd +zookeeper +postgres +mysql$`), text)
	require.Regexp(t, regexp.MustCompile(`(?m)^H7 +- +- +fenced 1/1 +safe 0/1`), text)
	require.Regexp(t, regexp.MustCompile(`(?m)^ +away 1/1$`), text, "the variant has a line of its own")
	require.Regexp(t, regexp.MustCompile(`(?m)^etcd +[0-9.]+ ms +[0-9.]+ ms`), text)
	require.Equal(t, "Nothing was run.\n", (&Report{}).Summary())
}

func TestMarkdown(t *testing.T) {
	for name, r := range reports(t) {
		var b strings.Builder
		require.NoError(t, r.Markdown(&b), name)
		text := b.String()
		pictures := r.Pictures()
		for _, m := range regexp.MustCompile(`\(pictures/([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, pictures, m[1], name)
		}
		for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(regexp.MustCompile("`[^`]*`").ReplaceAllString(text, ""), -1) {
			require.Equal(t, "<br>", tag, name)
		}
		for line := range strings.SplitSeq(text, "\n") { // each row has as many cells as its table's head
			require.False(t, strings.HasPrefix(line, "| <"), name)
		}
	}
	var b strings.Builder
	require.NoError(t, sample(t).Markdown(&b))
	require.Contains(t, b.String(), "\n| H8 A Redlock node restarts without its data | – not run | – not run | – not run | unsafe (1 of 1)<br>delayed restart: safe (0 of 1) |")
	require.Contains(t, b.String(), "![Who held the lock when](pictures/H7-redis-replicas-1.svg)")
	require.Contains(t, b.String(), "pgbouncer")
}

func TestFigures(t *testing.T) {
	for want, got := range map[string]string{
		"0.0 µs": micros(0), "85.0 µs": micros(85), "1.24 ms": micros(1240), "12.0 s": micros(12e6), "999 µs": micros(999.4), "1.00 ms": micros(999.6),
		"2.10 s": millis(2100), "0 ms": millis(0), "1,234 s": micros(1234e6), "0.004": significant(0.004), "-1,216": significant(-1216), "0": significant(math.NaN()),
		"2 min 41 s": seconds(161.3), "47 s": seconds(47), "7.75 GiB": memory(8323186688), "1,000,000": count(1e6),
		"9.31 (8.80–10.1) ×": Spread{3, 9.31, 8.8, 10.1}.times(), "9.31 × PING (8.80–10.1)": Spread{3, 9.31, 8.8, 10.1}.of("PING"), "–": Spread{}.times(),
	} {
		require.Equal(t, want, got)
	}
}

func TestTokenNames(t *testing.T) {
	run := func(tokens ...uint64) *Run {
		r := &Run{Lanes: []Lane{{}}}
		for _, token := range tokens {
			r.Lanes[0].Spans = append(r.Lanes[0].Spans, Span{Token: token})
		}
		return r
	}
	require.Equal(t, "34816", tokenNames(run(34816, 35840))(34816))
	require.Equal(t, "…0512", tokenNames(run(1795072000000512, 1795072000001536))(1795072000000512))
	require.Equal(t, "17950729999", tokenNames(run(17950729999, 1795073))(17950729999), "of another length: not comparable if cut")
	require.Equal(t, "no token", tokenNames(run())(0))
}

func TestCellID(t *testing.T) {
	require.Equal(t, "H7-redis", (&Cell{Hazard: "H7", Subject: "redis"}).ID())
	require.Equal(t, "H7-redis-replicas-1", (&Cell{Hazard: "H7", Subject: "redis", Variant: "replicas=1"}).ID())
	require.Equal(t, "H7-------etc", (&Cell{Hazard: "H7", Subject: "../../etc"}).ID(), "it is a file's name, too")
}
