package hazards

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// articleScheme is that of the URLs by which workers open the lock of an article: "article://127.0.0.1:6379/0?lock=plain-del".
const articleScheme = "article"

// WorkerMain is the first line of main, and of TestMain. In a process that was started as a worker of a play it works and exits; in others
// it returns at once. The program must import the backends. The locks of the articles can be opened in workers alone: nobody else should.
func WorkerMain() {
	if play.IsWorker() {
		lockport.Register(lockport.Scheme{Name: articleScheme, Open: openArticle})
	}
	play.WorkerMain()
}

// openArticle opens the lock that u names.
func openArticle(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	x, err := exhibit(u.Query().Get("lock"))
	if err != nil {
		return nil, err
	}
	at := *u
	at.Scheme, at.RawQuery = "redis", ""
	return x.Open(context.Background(), at.String())
}

// exhibit is the lock of an article by its name.
func exhibit(name string) (articles.Exhibit, error) {
	all := slices.Concat(articles.All(), articles.Sound())
	i := slices.IndexFunc(all, func(x articles.Exhibit) bool { return x.Name == name })
	if i < 0 {
		return articles.Exhibit{}, fmt.Errorf("no lock of an article has the name %q", name)
	}
	return all[i], nil
}

// articleSeat makes a seat from which a worker opens the lock of an article where others open lockport's own on Redis.
func articleSeat(seat func() (*environment.Endpoint, error), lock string) func() (*environment.Endpoint, error) {
	return func() (*environment.Endpoint, error) {
		s, err := seat()
		if err != nil {
			return nil, err
		}
		u, err := url.Parse(s.URL)
		if err != nil {
			return nil, err
		}
		u.Scheme, u.RawQuery = articleScheme, url.Values{"lock": {lock}}.Encode()
		s.URL = u.String()
		return s, nil
	}
}

// worldOf is what a scenario is played on: the servers of w, with the lock of an article where it says so. Only who has the servers alone has them mended after
// a play, unless ctx has ended, for then they are about to be closed.
func (s *scenario) worldOf(ctx context.Context, w *environment.Running) *environment.Running {
	world, arrangement := *w, *w.Environment
	world.Environment = &arrangement
	if s.lock != "" {
		arrangement.Tokens = false
		world.Endpoint = articleSeat(w.Endpoint, s.lock)
	}
	world.Heal = func(mending context.Context) error {
		if !s.alone || ctx.Err() != nil {
			return nil
		}
		return w.Heal(mending)
	}
	return &world
}
