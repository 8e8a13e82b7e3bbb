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
			How: "Acquire and Release", Renewal: Renews, Waits: true, Open: openLockport(),
		})
		register(Library{
			Name: "lockport, no hand-off", Family: family, Kind: Variant, Module: ourModule, Only: []string{"contend-", "mixed-", "queue-"},
			How: "the same with WithoutHandOff: every hold is the server's to give", Renewal: Renews, Waits: true,
			Open: openLockport(lockport.WithoutHandOff()),
		})
	}
	register(Library{
		Name: "lockport", Family: "file", Kind: Ours, Module: ourModule, Only: []string{"handoff-same", "takeover"},
		How: "Acquire and Release", Renewal: WithServer, Waits: true, Open: openLockport(),
	})
	register(Library{
		Name: "lockport, no tokens", Family: "mysql", Kind: Variant, Module: ourModule, Only: []string{"cycle", "own-"},
		How: "the same with tokens=false: no row is written for a token", Renewal: Renews, Waits: true,
		Open: func(ctx context.Context, c Config) (Locker, error) {
			u, err := url.Parse(c.URL)
			if err != nil {
				return nil, err
			}
			parameters := u.Query()
			parameters.Set("tokens", "false")
			u.RawQuery = parameters.Encode()
			c.URL = u.String()
			return openLockport()(ctx, c)
		},
	})
}

type ours struct{ *lockport.Client }

func openLockport(more ...lockport.Option) func(context.Context, Config) (Locker, error) {
	return func(ctx context.Context, c Config) (Locker, error) {
		client, err := lockport.Open(ctx, c.URL, append(more, lockport.TTL(c.TTL), lockport.Logger(nil))...)
		if err != nil {
			return nil, err
		}
		return ours{client}, nil
	}
}

func (o ours) Acquire(ctx context.Context, name string) (Hold, error) {
	return hold(o.Client.Acquire(ctx, name))
}

func (o ours) Try(ctx context.Context, name string) (Hold, error) {
	return hold(o.TryAcquire(ctx, name))
}

// hold keeps a nil lock from becoming a Hold that is not nil.
func hold(l *lockport.Lock, err error) (Hold, error) {
	switch {
	case errors.Is(err, lockport.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		return nil, ErrHeld
	case err != nil:
		return nil, err
	}
	return l, nil
}
