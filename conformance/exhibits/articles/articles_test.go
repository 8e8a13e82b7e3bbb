package articles_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(open)
	os.Exit(m.Run())
}

// open opens the lock that the fragment of a target names.
func open(ctx context.Context, target string) (driver.Backend, error) {
	rawURL, name, _ := strings.Cut(target, "#")
	for _, x := range slices.Concat(broken(), articles.Sound()) {
		if x.Name == name {
			return x.Open(ctx, rawURL)
		}
	}
	return nil, fmt.Errorf("no lock has the name %q", name)
}

// broken are the locks that must be caught.
func broken() []articles.Exhibit { return slices.Concat(articles.All(), articles.Libraries()) }

// run runs the cases of which the IDs are given against x.
func (all nodes) run(t *testing.T, x articles.Exhibit, ids []string) []conformance.Result {
	report := conformance.Run(t.Context(), all.config(t, x), conformance.Match(func(c conformance.Case) bool { return slices.Contains(ids, c.ID()) }))
	require.Empty(t, report.Error)
	return report.Results
}

// Every lock of an article, or of a library, fails the cases that are made for its fault, and these say why. What fails is what is broken: the locks of
// which they are made pass those cases. So does a release in a transaction, and all that there is about ownership.
func TestArticles(t *testing.T) {
	all := newNodes(t)
	passes := make(map[string][]string) // what sound locks must pass
	for _, x := range broken() {
		base := "set-nx-px"
		if x.Nodes > 1 {
			base = "redlock"
		}
		passes[base] = append(passes[base], x.CaughtBy...)
	}
	passes["watch-multi"] = passes["set-nx-px"]
	for _, c := range conformance.Cases() {
		if c.Group == "ownership" || c.ID() == "unknown/release-reply-lost" || c.ID() == "unknown/release-cut-after-each-request" {
			passes["watch-multi"] = append(passes["watch-multi"], c.ID())
		}
	}
	// They mostly wait for time to pass, so more run at once than there are processors.
	lanes := make(chan struct{}, 8)
	var running sync.WaitGroup
	defer running.Wait()
	start := func(x articles.Exhibit, ids []string, judge func(*testing.T, []conformance.Result)) {
		t.Run(x.Name, func(t *testing.T) {
			results := make(chan []conformance.Result, 1)
			running.Go(func() {
				lanes <- struct{}{}
				defer func() { <-lanes }()
				defer close(results)
				results <- all.run(t, x, ids)
			})
			t.Parallel() // as many as there are processors; the cases run meanwhile
			judge(t, <-results)
		})
	}
	for _, x := range articles.Sound() {
		start(x, passes[x.Name], func(t *testing.T, results []conformance.Result) {
			require.NotEmpty(t, results)
			for _, res := range results {
				t.Logf("VERDICT article-sound %s | %s | %s", x.Name, res.ID(), res.Outcome)
				require.Equal(t, conformance.Pass, res.Outcome, "%s: %s", res.ID(), res.Message())
			}
		})
	}
	for _, x := range broken() {
		start(x, x.CaughtBy, func(t *testing.T, results []conformance.Result) {
			require.NotEmpty(t, x.CaughtBy)
			require.Contains(t, []int{1, len(x.CaughtBy)}, len(x.Sees))
			require.Len(t, results, len(x.CaughtBy), "a case that is named is not in the suite")
			for _, res := range results {
				t.Logf("VERDICT article %s | %s | %s", x.Name, res.ID(), res.Outcome)
				require.Equal(t, conformance.Fail, res.Outcome, "%s does not catch a lock of which this is true: %s (%s)",
					res.ID(), x.Is, res.Reason)
				require.Contains(t, res.Message(), res.Rule)
				require.Contains(t, res.Reason, x.Sees[slices.Index(x.CaughtBy, res.ID())%len(x.Sees)])
			}
		})
	}
}

// A URL must have as many addresses as the lock asks servers.
func TestOpen(t *testing.T) {
	all := articles.Sound()
	redlock := all[len(all)-1]
	require.Equal(t, 5, redlock.Nodes)
	_, err := redlock.Open(t.Context(), "redis://localhost:1")
	require.ErrorContains(t, err, "asks 5 servers, and the URL names 1")
	_, err = redlock.Open(t.Context(), "memory://a,b,c,d,e")
	require.ErrorContains(t, err, "scheme")
	b, err := redlock.Open(t.Context(), "redis://a:1,b:2,c:3,d:4,e:5")
	require.NoError(t, err)
	require.NoError(t, b.Close())
}
