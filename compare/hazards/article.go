package hazards

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// articleScheme is the scheme of URLs that open the lock of an article in workers: "article://127.0.0.1:6379/0?lock=plain-del".
const articleScheme = "article"

// WorkerMain is the first line of main, and of TestMain: see [play.WorkerMain]. Only workers can open the articles' locks: nobody else should.
func WorkerMain() {
	if play.IsWorker() {
		lockport.Register(lockport.Scheme{Name: articleScheme, Open: func(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
			at := url.URL{Scheme: "redis", Host: u.Host, Path: u.Path}
			return article(u.Query().Get("lock")).Open(context.Background(), at.String())
		}})
	}
	play.WorkerMain()
}

func article(name string) articles.Exhibit {
	all := slices.Concat(articles.All(), articles.Sound())
	i := slices.IndexFunc(all, func(x articles.Exhibit) bool { return x.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("no article lock is named %q", name))
	}
	return all[i]
}

// inEnvironment turns the scenario into a cell of an environment.
func (s *scenario) inEnvironment(e *environment.Environment) *play.Cell {
	c := &play.Cell{Fault: s.Hazard, Script: s.act, Belief: believed, Harmless: !s.Harmful, TTL: e.TTL}
	if s.TTLSeconds != 0 && !e.Local && e.Backend != "zookeeper" { // ZooKeeper allows no longer TTL
		c.TTL = time.Duration(s.TTLSeconds) * time.Second
	}
	c.URL = func(at string) string {
		if s.Exhibit == "" {
			return strings.Replace(at, "ttl="+e.TTL.String(), "ttl="+c.TTL.String(), 1) // session backends take the TTL from the URL
		}
		u, _ := url.Parse(at)
		u.Scheme, u.RawQuery = articleScheme, url.Values{"lock": {s.Exhibit}}.Encode()
		return u.String()
	}
	return c
}
