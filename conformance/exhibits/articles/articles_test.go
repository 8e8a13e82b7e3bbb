package articles_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/pages"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(open)
	os.Exit(m.Run())
}

// open opens the lock on Redis that the target's fragment names.
func open(ctx context.Context, target string) (driver.Backend, error) {
	rawURL, name, _ := strings.Cut(target, "#")
	for _, x := range slices.Concat(articles.All(), articles.Libraries(), articles.Sound()) {
		if x.Name == name {
			return x.Open(ctx, rawURL)
		}
	}
	return nil, fmt.Errorf("no lock has the name %q", name)
}

// trial returns a trial of cases that must have the outcome want on x.
func trial(kind string, x articles.Exhibit, cfg conformance.Config, ids []string, want conformance.Outcome) exhibits.Trial {
	return exhibits.Trial{Kind: kind, Name: x.Name, Is: x.Is, Config: cfg, Cases: ids, Want: want, Sees: x.Sees}
}

func onRedis(x articles.Exhibit) bool { return x.Server == articles.Redis }

// Every lock on Redis fails the cases that are made for its fault. The sound locks of which they are made pass those cases, so the
// fault alone is caught. The release in a transaction passes them too, and all cases about ownership.
func TestArticles(t *testing.T) {
	var nodes []*servers.Redis
	for range 5 {
		nodes = append(nodes, servers.NeedRedis(t, servers.RedisOptions{}))
	}
	var trials []exhibits.Trial
	passes := make(map[string][]string) // cases that sound locks must pass
	for _, x := range slices.Concat(articles.All(), articles.Libraries()) {
		if !onRedis(x) {
			continue
		}
		trials = append(trials, trial("article", x, config(t, x, nodes), x.CaughtBy, conformance.Fail))
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
	for _, x := range articles.Sound() {
		trials = append(trials, trial("article-sound", x, config(t, x, nodes), passes[x.Name], conformance.Pass))
	}
	exhibits.Try(t, trials...)
}

// Each lock that is not on Redis fails its cases too. The same lock without the fault passes them.
func TestLibraries(t *testing.T) {
	for _, x := range slices.DeleteFunc(slices.Concat(articles.Libraries(), articles.All()), onRedis) {
		t.Run(x.Name, func(t *testing.T) {
			t.Parallel()
			without := config(t, x, nil)
			without.Open = x.OpenSound
			exhibits.Try(t, trial("library", x, config(t, x, nil), x.CaughtBy, conformance.Fail),
				trial("library-sound", x, without, x.CaughtBy, conformance.Pass))
		})
	}
}

// The sound lock on one Redis, a driver without the optional interfaces, passes the suite with all faults of network and server.
// It renews locks one by one, too slowly for hundreds of locks on a busy machine.
func TestSound(t *testing.T) {
	cfg := config(t, articles.Sound()[0], []*servers.Redis{servers.NeedRedis(t, servers.RedisOptions{})})
	conformance.Test(t, cfg, conformance.Match(func(c conformance.Case) bool { return c.ID() != "cost/held-locks-stay" }))
}

// A URL must have as many addresses as the lock has servers.
func TestOpen(t *testing.T) {
	all := articles.Sound()
	redlock := all[len(all)-1]
	require.Equal(t, 5, redlock.Nodes)
	_, err := redlock.Open(t.Context(), "redis://localhost:1")
	require.ErrorContains(t, err, "needs 5 servers, but the URL names 1")
	_, err = redlock.Open(t.Context(), "memory://a,b,c,d,e")
	require.ErrorContains(t, err, "scheme")
	b, err := redlock.Open(t.Context(), "redis://a:1,b:2,c:3,d:4,e:5")
	require.NoError(t, err)
	require.NoError(t, b.Close())
}

// docs/testing.md has the tables of the exhibits, and lists every hazard.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n|exhibit|hazard|article|what is broken|caught by|\n|---|---|---|---|---|\n")
	before, _, _ := strings.Cut(pages.Read(t, "testing.md"), "<!-- The table of articles:")
	for _, x := range articles.All() {
		fmt.Fprintf(&b, "|%s|%s|%s|%s|`%s`|\n", x.Name, x.Hazard, x.Article, x.Is, strings.Join(x.CaughtBy, "`, `"))
		require.True(t, x.Hazard == "" || strings.Contains(before, "| "+x.Hazard+" |"), "docs/testing.md does not list %s", x.Hazard)
	}
	b.WriteString("\nSound, and made to pass what catches the others:\n\n|lock|article|how it is sound|\n|---|---|---|\n")
	for _, x := range articles.Sound() {
		fmt.Fprintf(&b, "|%s|%s|%s|\n", x.Name, x.Article, x.Is)
	}
	pages.Holds(t, "testing.md", "articles", b.String())

	b.Reset()
	b.WriteString("\n|bug|whose|what is broken|on|caught by|\n|---|---|---|---|---|\n")
	for _, x := range articles.Libraries() {
		fmt.Fprintf(&b, "|%s|[%s](%s)|%s|%s|`%s`|\n", x.Name, x.Library, x.Article, x.Is, cmp.Or(x.Server, "redis"), strings.Join(x.CaughtBy, "`, `"))
	}
	pages.Holds(t, "testing.md", "libraries", b.String())
}
