package articles_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/pages"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(open)
	os.Exit(m.Run())
}

// open opens the lock that the target's fragment names.
func open(ctx context.Context, target string) (driver.Backend, error) {
	rawURL, name, _ := strings.Cut(target, "#")
	for _, x := range slices.Concat(articles.All(), articles.Sound()) {
		if x.Name == name {
			return x.Open(ctx, rawURL)
		}
	}
	return nil, fmt.Errorf("no lock has the name %q", name)
}

// Every lock on Redis fails the cases that are made for its fault. The sound locks of which they are made pass those cases, so the
// fault alone is caught. The release in a transaction passes them too, and all cases about ownership.
func TestArticles(t *testing.T) {
	var nodes []*servers.Redis
	for range 5 {
		nodes = append(nodes, servers.NeedRedis(t, servers.RedisOptions{}))
	}
	var trials []exhibits.Trial
	passes := map[string]map[string]string{"set-nx-px": {}, "watch-multi": {}, "redlock": {}} // cases that sound locks must pass
	for _, x := range articles.All() {
		trials = append(trials, exhibits.Trial{Kind: "article", Name: x.Name, Is: x.Is, Config: config(t, x, nodes), Cases: x.CaughtBy})
		for id, sees := range x.CaughtBy {
			require.NotEmpty(t, sees, x.Name)
			if x.Nodes > 1 {
				passes["redlock"][id] = ""
			} else {
				passes["set-nx-px"][id], passes["watch-multi"][id] = "", ""
			}
		}
	}
	for _, c := range conformance.Cases() {
		if c.Group == "ownership" || c.ID() == "unknown/release-reply-lost" || c.ID() == "unknown/release-cut-after-each-request" {
			passes["watch-multi"][c.ID()] = ""
		}
	}
	for _, x := range articles.Sound() {
		trials = append(trials, exhibits.Trial{Kind: "sound", Name: x.Name, Is: x.Is, Config: config(t, x, nodes), Cases: passes[x.Name]})
	}
	exhibits.Try(t, trials...)
}

// The sound lock on one Redis, a driver without the optional interfaces, passes the suite with all faults of network and server.
// It renews locks one by one, too slowly for hundreds of locks on a busy machine. It refuses a claim that arrives after it was
// abandoned, as from a silent connection.
func TestSound(t *testing.T) {
	cfg := config(t, articles.Sound()[0], []*servers.Redis{servers.NeedRedis(t, servers.RedisOptions{})})
	b := peer.Must(open(t.Context(), cfg.Direct))(t)
	late := driver.Request{Name: "name", Owner: "late", TTL: time.Hour}
	require.NoError(t, b.Abandon(t.Context(), late))
	require.ErrorIs(t, peer.ErrOf(b.TryAcquire(t.Context(), late)), driver.ErrHeld)
	require.NoError(t, b.Close())
	conformance.Test(t, cfg, conformance.Match(func(c conformance.Case) bool { return c.ID() != "cost/held-locks-stay" }))
}

// docs/testing.md has the table of the exhibits, and lists every hazard.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n|exhibit|hazard|article|what is broken|caught by|\n|---|---|---|---|---|\n")
	before, _, _ := strings.Cut(pages.Read(t, "testing.md"), "<!-- The table of articles:")
	for _, x := range articles.All() {
		fmt.Fprintf(&b, "|%s|%s|%s|%s|`%s`|\n", x.Name, x.Hazard, x.Article, x.Is, strings.Join(slices.Sorted(maps.Keys(x.CaughtBy)), "`, `"))
		require.True(t, x.Hazard == "" || strings.Contains(before, "| "+x.Hazard+" |"), "docs/testing.md does not list %s", x.Hazard)
	}
	b.WriteString("\nThese locks are sound, and pass the cases that catch the others:\n\n|lock|article|how it is sound|\n|---|---|---|\n")
	for _, x := range articles.Sound() {
		fmt.Fprintf(&b, "|%s|%s|%s|\n", x.Name, x.Article, x.Is)
	}
	pages.Holds(t, "testing.md", "articles", b.String())
}
