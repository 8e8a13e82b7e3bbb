// Package articles is a collection of broken locks that articles teach, as drivers on a real Redis. Each is a sound
// lock with one step replaced, so what fails is the fault that its article shows or overlooks. The named cases of package
// conformance must catch each. Do not use them for anything else.
//
// docs/testing.md explains the hazards H1 to H15 and the numbers of the articles.
package articles

import (
	"context"
	"net/url"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Exhibit is a lock from an article.
type Exhibit struct {
	// Name identifies the exhibit.
	Name string
	// Hazard is the hazard that it shows, "H3". Empty: it is sound, or the list of hazards lacks it.
	Hazard string
	// Article is the article that shows it or warns of it: "003". It may be a link to the report of a bug instead.
	Article string
	// Is describes the fault, or why the lock is sound, in one sentence.
	Is string
	// CaughtBy maps the IDs of cases that must fail to what their reasons must contain. Others may fail too. Empty for a sound lock.
	CaughtBy map[string]string
	// Nodes is the number of its servers, if not one.
	Nodes int

	client func(*goredis.Options) // changes its Redis client
	spoil  func(*lock)            // replaces a step
}

type caught = map[string]string // the type of CaughtBy

// All returns the broken locks of the articles, in the order of their hazards.
func All() []Exhibit { return slices.Clone(taught) }

// Sound returns the sound locks of which All are made, and a correct lock from an article.
func Sound() []Exhibit { return slices.Clone(sound) }

// Open opens x at a target: a redis:// URL of go-redis, with Nodes addresses separated by commas. It does no I/O. The caller
// must Close it.
func (x Exhibit) Open(_ context.Context, target string) (driver.Backend, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	var nodes []*lock
	for host := range strings.SplitSeq(u.Host, ",") {
		u.Host = host
		o, err := goredis.ParseURL(u.String())
		if err != nil {
			return nil, err
		}
		// No retries: a repeated request would find its own effect.
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		if x.client != nil {
			x.client(o)
		}
		nodes = append(nodes, onRedis(goredis.NewClient(o), x.Name))
	}
	l := nodes[0]
	if len(nodes) > 1 {
		l = inMajority(nodes)
	}
	if x.spoil != nil {
		x.spoil(l)
	}
	return l.driver(), nil
}
