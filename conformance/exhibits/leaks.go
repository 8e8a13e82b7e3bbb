package exhibits

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

// leaks are locks that leave something behind.
var leaks = []Exhibit{
	newExhibit("leaks-goroutines", "every claim leaves a goroutine behind", "no goroutine may be left",
		caught{"contract/release", "errors/released"}, asking(func(*driver.Request) { go time.Sleep(10 * time.Second) })),
	newExhibit("leaks-keys", "every claim leaves a key behind at the server", "the server must keep nothing",
		caught{"contract/release", "errors/released"}, claiming(func(b *Backend, ctx context.Context, req driver.Request) (driver.Lease, error) {
			side := driver.Request{Name: req.Name + ":queue", Owner: req.Owner, TTL: time.Hour}
			_, _ = b.inner.TryAcquire(ctx, side)
			return b.TryAcquire(ctx, req)
		})),
	newExhibit("leaks-connections", "Close leaves a connection open", "no connection may be left",
		caught{"cost/connections"}, func(b *Backend) driver.Backend { return opened{b} }),
}

// opened is a backend that stays connected.
type opened struct{ *Backend }

// Close implements driver.Backend.
func (b opened) Close() error { return b.inner.Close() }
