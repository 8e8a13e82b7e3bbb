package exhibits

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

// leaks are locks that leave something behind.
var leaks = []Exhibit{
	{
		Name: "leaks-goroutines", Is: "every claim leaves a goroutine behind",
		CaughtBy: []string{"contract/release", "errors/released"}, Sees: "no goroutine may be left",
		broken: func(b *Backend) driver.Backend {
			return renamed(b, func(*driver.Request) { go time.Sleep(10 * time.Second) })
		},
	},
	{
		Name: "leaks-keys", Is: "every claim leaves a key behind at the server",
		CaughtBy: []string{"contract/release", "errors/released"}, Sees: "the server must keep nothing",
		broken: func(b *Backend) driver.Backend {
			return claimed{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
				side := driver.Request{Name: req.Name + ":queue", Owner: req.Owner, TTL: time.Hour}
				_, _ = b.inner.TryAcquire(ctx, side)
				return b.TryAcquire(ctx, req)
			}}
		},
	},
	{
		Name: "leaks-connections", Is: "Close leaves a connection open",
		CaughtBy: []string{"cost/connections"}, Sees: "no connection may be left",
		broken: func(b *Backend) driver.Backend { return opened{b} },
	},
}

// opened is a backend that stays connected.
type opened struct{ *Backend }

// Close implements driver.Backend.
func (b opened) Close() error { return b.inner.Close() }
