package promlock_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	promlock "github.com/lockport/lockport/adapters/prometheus"
	"github.com/lockport/lockport/internal/lab/peer"
)

// labelsOf returns the labels of each series of Metrics, including those that a scrape adds.
func labelsOf(t *testing.T) map[string][]string {
	series := make(map[string][]string)
	m, r := register(t, promlock.Options{})
	use(t.Context(), m.Hooks())
	for _, f := range peer.Must(r.Gather())(t) {
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
	metric = regexp.MustCompile(`(lockport_\w+)(?:\{([^{}]*)\})?`)
	label  = regexp.MustCompile(`(\w+)(?:=~|!=|=)"`) // in a metric's braces
	groups = regexp.MustCompile(`by \(([^()]*)\)`)
)

// Every metric and label that dashboard.json and alerts.yml use exists, and the dashboard shows every metric.
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
	require.NoError(t, json.Unmarshal(peer.Must(os.ReadFile("dashboard.json"))(t), &dashboard))
	asked := make(map[string]bool)
	ask := func(where, query string) {
		require.Regexp(t, metric, query, where)
		for _, m := range metric.FindAllStringSubmatch(query, -1) {
			asked[m[1]] = true
			require.Contains(t, series, m[1], where)
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				require.Contains(t, series[m[1]], l[1], where)
			}
			for _, g := range groups.FindAllStringSubmatch(query, -1) {
				require.Subset(t, series[m[1]], strings.Split(g[1], ", "), where)
			}
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
	require.NoError(t, yaml.Unmarshal(peer.Must(os.ReadFile("alerts.yml"))(t), &alerts))
	require.Len(t, alerts.Groups, 1)
	require.Len(t, alerts.Groups[0].Rules, 3)
	for _, rule := range alerts.Groups[0].Rules {
		ask(rule.Alert, rule.Expr)
		require.NotEmpty(t, rule.Labels["severity"])
		require.NotEmpty(t, rule.Annotations["summary"])
	}
}
