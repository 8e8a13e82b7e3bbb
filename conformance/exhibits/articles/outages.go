package articles

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// outages are locks that deal wrongly with a server that is not there.
var outages = []Exhibit{
	{
		Name: "waits-for-a-silent-server", Hazard: "H12", Article: "001",
		Is:       "the client was made without timeouts: while the server is silent a claim hangs, whatever its caller's deadline",
		CaughtBy: []string{"cancellation/silent-server"}, Sees: []string{"TryAcquire has not returned"},
		client: func(o *goredis.Options) { o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = -1, -1, false },
		one:    unchanged,
	},
	{
		Name: "release-swallows-errors", Hazard: "H12", Article: "001",
		Is:       "an error of the release is logged at most: the caller takes the lock for released, and it is there until it expires",
		CaughtBy: []string{"giving-up/release-server-gone", "giving-up/release-silent-server"},
		Sees:     []string{"Release returned nil, and the name is still taken"},
		// Its own patience ends well before that of who calls it: it is its answer, not its silence, that counts.
		client: func(o *goredis.Options) { o.ReadTimeout = time.Second },
		one: giving(func(l *lock, ctx context.Context, c claim) (bool, error) {
			ours, err := giveScript.Eval(ctx, l.rdb, []string{c.key}, c.value).Bool()
			return ours || err != nil, nil
		}),
	},
	{
		Name: "takes-an-error-for-held", Hazard: "H12", Article: "003, 004",
		Is:       "a claim that failed is one that found the lock held: nobody learns that the server is not there",
		CaughtBy: []string{"unknown/server-gone", "errors/acquire-server-gone"},
		Sees:     []string{"lock is held by somebody else"},
		one: func(l *lock) driver.Backend {
			take := l.take
			l.take = func(ctx context.Context, c claim) (bool, error) {
				got, err := take(ctx, c)
				return got && err == nil, nil
			}
			return l
		},
	},
}

var _ driver.Backend = (*lock)(nil)
