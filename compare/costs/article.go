package costs

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/exhibits/articles"
)

// spinning is the lock of an article whose waiters are shown for comparison.
const spinning = "asks-every-five-milliseconds"

// openArticle opens the lock of an article. Only workers do: nobody else should.
func openArticle(ctx context.Context, p posting) (*lockport.Client, error) {
	all := articles.All()
	i := slices.IndexFunc(all, func(x articles.Exhibit) bool { return x.Name == p.Article })
	if i < 0 {
		return nil, fmt.Errorf("no article has a lock %q", p.Article)
	}
	b, err := all[i].Open(ctx, p.URL)
	if err != nil {
		return nil, err
	}
	return lockport.New(b, lockport.TTL(p.TTL))
}

// articleSays names the lock for people.
func articleSays(name string) string {
	for _, x := range articles.All() {
		if x.Name == name {
			return fmt.Sprintf("of article %s: %s", x.Article, x.Is)
		}
	}
	return name
}
