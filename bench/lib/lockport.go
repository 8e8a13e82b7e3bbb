package lib

import (
	"context"
	"errors"
	"net/url"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/all"
)

const ourModule = "github.com/lockport/lockport"

func init() {
	for _, family := range []string{"redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"} {
		register(Library{
			Name: "lockport", Family: family, Kind: Ours, Module: ourModule,
			How: "Acquire and Release", Renewal: Renews, Waits: true, Open: openLockport(""),
		})
		register(Library{
			Name: "lockport, no hand-off", Family: family, Kind: Variant, Module: ourModule, Only: []string{"contend-"},
			How: "the same with WithoutHandOff: every hold is the server's to give", Renewal: Renews, Waits: true,
			Open: openLockport("", lockport.WithoutHandOff()),
		})
	}
	register(Library{
		Name: "lockport", Family: "file", Kind: Ours, Module: ourModule, Only: []string{"handoff-same", "takeover"},
		How: "Acquire and Release", Renewal: WithServer, Waits: true, Open: openLockport(""),
	})
	register(Library{
		Name: "lockport, no tokens", Family: "mysql", Kind: Variant, Module: ourModule, Only: []string{"cycle", "own-"},
		How: "the same with tokens=false: no row is written for a token", Renewal: Renews, Waits: true, Open: openLockport("tokens=false"),
	})
}

// openLockport opens a URL, to whose parameters it adds more.
func openLockport(parameters string, more ...lockport.Option) func(context.Context, Config) (Locker, error) {
	return func(ctx context.Context, c Config) (Locker, error) {
		u, err := url.Parse(c.URL)
		if err != nil {
			return nil, err
		}
		if parameters != "" {
			u.RawQuery = parameters + "&" + u.RawQuery
		}
		client, err := lockport.Open(ctx, u.String(), append(more, lockport.TTL(c.TTL), lockport.Logger(nil))...)
		if err != nil {
			return nil, err
		}
		return takes{func(ctx context.Context, name string, wait bool) (release, error) {
			take := client.TryAcquire
			if wait {
				take = client.Acquire
			}
			l, err := take(ctx, name)
			switch {
			case !wait && errors.Is(err, lockport.ErrHeld):
				return nil, ErrHeld
			case err != nil:
				return nil, err
			}
			return l.Release, nil
		}, client.Close}, nil
	}
}
