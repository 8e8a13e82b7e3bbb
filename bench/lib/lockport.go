package lib

import (
	"context"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/all"
	"github.com/lockport/lockport/internal/lab/measure"
)

// ours returns lockport's own ways.
func ours() (all []Library) {
	add := func(l Library, parameters string, options ...lockport.Option) {
		l.Waits, l.Open = true, openLockport(parameters, options)
		all = append(all, l)
	}
	for _, family := range []string{"redis", "redlock", "etcd", "zookeeper", "postgres", "mysql", "nats"} {
		add(Library{Family: family, Name: "lockport", Kind: Ours, Renewal: automatic, How: "Acquire and Release"}, "")
		if family == "mysql" {
			add(Library{
				Family: family, Name: "lockport, no tokens", Kind: Variant, Renewal: automatic, Only: []string{"cycle", "own-"},
				How: "the same with tokens=false: no row is written for a token",
			}, "?tokens=false")
		}
		add(Library{
			Family: family, Name: "lockport, no hand-off", Kind: Variant, Renewal: automatic, Only: []string{"contend-"},
			How: "the same with WithoutHandOff: the server grants every hold",
		}, "", lockport.WithoutHandOff())
	}
	onTable := func(mode string) func(context.Context, measure.Config) (measure.Locker, error) {
		return func(ctx context.Context, c measure.Config) (measure.Locker, error) {
			c.URL = "table+" + c.URL + "?create=true&sslmode=disable&default_query_exec_mode=" + mode
			return measure.Open(ctx, c)
		}
	}
	all = append(all, Library{
		Family: "table", Name: "lockport", Kind: Ours, Renewal: automatic, Waits: true, Open: onTable("cache_statement"),
		How: "Acquire and Release of table+postgres, with prepared statements, pgx's default",
	}, Library{
		Family: "table", Name: "lockport, behind a pooler", Kind: Variant, Renewal: automatic, Waits: true, Open: onTable("exec"), Only: []string{"cycle", "own-"},
		How: "the same without prepared statements, the default for a URL",
	})
	add(Library{Family: "file", Name: "lockport", Kind: Ours, Renewal: sessionRenewal, Only: []string{"handoff-same", "takeover"}, How: "Acquire and Release"}, "")
	return all
}

// openLockport opens a URL with parameters, which begin with "?". The URLs of our servers have none.
func openLockport(parameters string, options []lockport.Option) func(context.Context, measure.Config) (measure.Locker, error) {
	return func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		c.URL += parameters
		return measure.Open(ctx, c, options...)
	}
}
