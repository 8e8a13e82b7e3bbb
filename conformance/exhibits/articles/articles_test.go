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
	for _, x := range slices.Concat(articles.All(), articles.Sound()) {
		if x.Name == name {
			return x.Open(ctx, rawURL)
		}
	}
	return nil, fmt.Errorf("no lock has the name %q", name)
}

// run runs the cases of which the IDs are given against x on servers of its own.
func run(ctx context.Context, w *world, x articles.Exhibit, ids []string) conformance.Report {
	return conformance.Run(ctx, w.config(x), conformance.Match(func(c conformance.Case) bool { return slices.Contains(ids, c.ID()) }))
}

// Every lock of an article fails the cases that are made for its fault, and these say why.
func TestArticlesAreCaught(t *testing.T) {
	t.Parallel()
	all := articles.All()
	reports := make([]conformance.Report, len(all))
	worlds := make([]*world, len(all))
	for i, x := range all {
		worlds[i] = newWorld(t, x)
	}
	// They mostly wait for time to pass, so more run at once than there are processors.
	lanes := make(chan struct{}, 8)
	var done sync.WaitGroup
	for i, x := range all {
		lanes <- struct{}{}
		done.Go(func() {
			defer func() { <-lanes }()
			reports[i] = run(t.Context(), worlds[i], x, x.CaughtBy)
		})
	}
	done.Wait()
	for i, x := range all {
		t.Run(x.Name, func(t *testing.T) {
			require.NotEmpty(t, x.CaughtBy)
			require.Contains(t, []int{1, len(x.CaughtBy)}, len(x.Sees))
			require.Empty(t, reports[i].Error)
			require.Len(t, reports[i].Results, len(x.CaughtBy), "a case that is named is not in the suite")
			for _, res := range reports[i].Results {
				require.Equal(t, conformance.Fail, res.Outcome, "%s does not catch a lock of which this is true: %s (%s)",
					res.ID(), x.Is, res.Reason)
				require.Contains(t, res.Message(), res.Rule)
				require.Contains(t, res.Reason, x.Sees[slices.Index(x.CaughtBy, res.ID())%len(x.Sees)])
			}
		})
	}
}

// What fails is what is broken: the locks of which the exhibits are made pass the cases that catch them. So does a release in a transaction, and all
// that there is about ownership.
func TestSoundLocksPass(t *testing.T) {
	t.Parallel()
	var one, many, ownership []string
	for _, x := range articles.All() {
		if x.Nodes > 1 {
			many = append(many, x.CaughtBy...)
		} else {
			one = append(one, x.CaughtBy...)
		}
	}
	for _, c := range conformance.Cases() {
		if c.Group == "ownership" || c.ID() == "unknown/release-reply-lost" || c.ID() == "unknown/release-cut-after-each-request" {
			ownership = append(ownership, c.ID())
		}
	}
	cases := map[string][]string{"set-nx-px": one, "watch-multi": slices.Concat(one, ownership), "redlock": many}
	for _, x := range articles.Sound() {
		require.NotEmpty(t, cases[x.Name])
		t.Run(x.Name, func(t *testing.T) {
			t.Parallel()
			report := run(context.WithoutCancel(t.Context()), newWorld(t, x), x, cases[x.Name])
			require.Empty(t, report.Error)
			require.NotEmpty(t, report.Results)
			for _, res := range report.Results {
				require.Equal(t, conformance.Pass, res.Outcome, "%s: %s", res.ID(), res.Message())
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
