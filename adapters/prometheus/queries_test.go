package promlock_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	promlock "github.com/lockport/lockport/adapters/prometheus"
)

// labelsOf returns the labels of each series of Metrics, including those that a scrape adds.
func labelsOf(t *testing.T) map[string][]string {
	series := make(map[string][]string)
	m, r := register(t, promlock.Options{})
	use(t.Context(), m.Hooks())
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		labels := []string{"job", "instance"}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		series[f.GetName()] = labels
		if f.GetType() == dto.MetricType_HISTOGRAM {
			series[f.GetName()+"_count"], series[f.GetName()+"_sum"], series[f.GetName()+"_bucket"] = labels, labels, append(labels, "le")
			delete(series, f.GetName())
		}
	}
	return series
}

var (
	selector = regexp.MustCompile(`(\w+)\{([^{}]*)\}`)
	matcher  = regexp.MustCompile(`^\s*(\w+)(?:=~|!=|=)"[^"]*"\s*$`)
	grouping = regexp.MustCompile(`by \(([^()]*)\)`)
	span     = regexp.MustCompile(`\[[^]]*\]|offset \w+`)
	word     = regexp.MustCompile(`[a-zA-Z_]\w*`)
	language = []string{"and", "histogram_quantile", "increase", "rate", "sum"}
)

// wrong describes the error in a query: an unknown metric, label or function, or unmatched brackets. Empty: none.
func wrong(query string, series map[string][]string) []string {
	var faults []string
	var known []string // labels of its series
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		labels, ok := series[s[1]]
		if !ok {
			faults = append(faults, "no metric "+s[1])
		}
		known = append(known, labels...)
		for _, pair := range strings.Split(s[2], ",") {
			if m := matcher.FindStringSubmatch(pair); m == nil || !slices.Contains(labels, m[1]) {
				faults = append(faults, s[1]+" has no such label: "+pair)
			}
		}
	}
	if len(known) == 0 {
		faults = append(faults, "no selector")
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for _, label := range strings.Split(g[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(known, label) {
				faults = append(faults, "no label "+label)
			}
		}
	}
	rest := span.ReplaceAllString(grouping.ReplaceAllString(selector.ReplaceAllString(query, ""), ""), "")
	for _, w := range word.FindAllString(rest, -1) {
		if !slices.Contains(language, w) {
			faults = append(faults, w+" is no function that is known here")
		}
	}
	if strings.Count(rest, "(") != strings.Count(rest, ")") || strings.ContainsAny(rest, "{}[]") {
		faults = append(faults, "brackets do not match")
	}
	return faults
}

// Every query in dashboard.json and alerts.yml is valid for Metrics.
func TestQueries(t *testing.T) {
	series := labelsOf(t)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	asked := make(map[string]bool)
	ask := func(where, query string) {
		require.Empty(t, wrong(query, series), "%s: %s", where, query)
		for _, s := range selector.FindAllStringSubmatch(query, -1) {
			asked[s[1]] = true
		}
	}
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			ask(p.Title, target.Expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			parts := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query)
			require.Len(t, parts, 3, v.Query)
			require.Contains(t, series[parts[1]], parts[2], v.Query)
		}
	}
	for name := range series { // a bucket counts as its histogram
		if !strings.HasSuffix(name, "_count") && !strings.HasSuffix(name, "_sum") {
			require.True(t, asked[name], "no panel shows %s", name)
		}
	}

	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	text, err = os.ReadFile("alerts.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &alerts))
	require.Len(t, alerts.Groups, 1)
	require.Len(t, alerts.Groups[0].Rules, 3)
	for _, rule := range alerts.Groups[0].Rules {
		ask(rule.Alert, rule.Expr)
		require.NotEmpty(t, rule.Labels["severity"])
		require.NotEmpty(t, rule.Annotations["summary"])
	}
}

// wrong detects errors, and only errors.
func TestWrong(t *testing.T) {
	series := map[string][]string{"a_total": {"job", "reason"}}
	require.Empty(t, wrong(`sum by (job) (rate(a_total{reason="x", job=~"$job"}[5m] offset 1h)) > 2`, series))
	for _, query := range []string{
		`sum(rate(b_total{job="x"}[5m]))`, `sum(rate(a_total{name="x"}[5m]))`, `sum by (name) (rate(a_total{job="x"}[5m]))`,
		`sum(rates(a_total{job="x"}[5m]))`, `sum(rate(a_total{job="x"}[5m])`, `sum(rate(a_total[5m]))`, `sum(rate(a_total{job=x}[5m]))`, `1`,
		`rate(a_total{job="x"}[5m)`,
	} {
		require.NotEmpty(t, wrong(query, series), query)
	}
}
