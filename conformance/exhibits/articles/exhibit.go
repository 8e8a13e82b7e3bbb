package articles

import (
	"context"
	"slices"

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
	// CaughtBy are the IDs of cases that must fail. Others may fail too. Empty for a sound lock.
	CaughtBy []string
	// Sees are texts that the reasons of failures must contain: one for all cases, or one for each of CaughtBy.
	Sees []string
	// Postgres says that its target is a postgres:// URL. Other targets are redis:// URLs of go-redis, with Nodes addresses
	// separated by commas.
	Postgres bool
	// Nodes is the number of its servers, if not one.
	Nodes int

	client func(*goredis.Options) // changes its Redis client
	spoil  func(*lock)            // replaces a step
	open   opener                 // for Postgres
}

// opener opens a lock at a target.
type opener func(target string) (driver.Backend, error)

// All returns the broken locks of the articles, in the order of their hazards.
func All() []Exhibit { return slices.Clone(taught) }

// Sound returns the sound locks of which All are made, and a correct lock from an article.
func Sound() []Exhibit { return slices.Clone(sound) }

// Open opens x at a target. It does no I/O. The caller must Close it.
func (x Exhibit) Open(_ context.Context, target string) (driver.Backend, error) {
	if x.open != nil {
		return x.open(target)
	}
	l, err := openRedis(x.Name, x.client, target)
	if err != nil {
		return nil, err
	}
	if x.spoil != nil {
		x.spoil(l)
	}
	return l.driver(), nil
}
