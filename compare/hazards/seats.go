package hazards

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/faults"
)

// articleScheme is that of the URLs by which workers open the lock of an article: "article://127.0.0.1:6379/0?lock=plain-del".
const articleScheme = "article"

// WorkerMain is the first line of main, and of TestMain. In a process that was started as a worker of a play it works and exits; in others
// it returns at once. The program must import the backends. The locks of the articles can be opened in workers alone: nobody else should.
func WorkerMain() {
	if faults.IsWorker() {
		lockport.Register(lockport.Scheme{Name: articleScheme, Open: openArticle})
	}
	faults.WorkerMain()
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
func articleSeat(seat func() (*faults.Seat, error), lock string) func() (*faults.Seat, error) {
	return func() (*faults.Seat, error) {
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
func (s *scenario) worldOf(ctx context.Context, w *faults.World) *faults.World {
	world, arrangement := *w, *w.Arrangement
	world.Arrangement = &arrangement
	if s.lock != "" {
		arrangement.Tokens = false
		world.Seat = articleSeat(w.Seat, s.lock)
	}
	world.Mend = func(mending context.Context) error {
		if !s.alone || ctx.Err() != nil {
			return nil
		}
		return w.Mend(mending)
	}
	return &world
}
