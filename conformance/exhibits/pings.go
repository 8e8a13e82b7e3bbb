package exhibits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// pings are locks whose Ping tells nothing of the server, or does more than to ask.
var pings = []Exhibit{
	{
		Name: "pings-itself", Is: "Ping does not ask the server",
		CaughtBy: []string{"optional/ping-silent-server", "optional/ping-server-gone"}, Sees: "Ping succeeded",
		broken: func(b *Backend) driver.Backend {
			return pinging{b, func(ctx context.Context) (string, error) {
				if err := ctx.Err(); err != nil {
					return "nothing", fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
				}
				return "nothing", nil
			}}
		},
	},
	{
		Name: "ping-releases", Is: "Ping releases what was claimed last",
		CaughtBy: []string{"optional/ping"}, Sees: "another claim was granted",
		broken: func(b *Backend) driver.Backend {
			var last driver.Request
			return pinging{renamed(b, func(req *driver.Request) { last = *req }), func(ctx context.Context) (string, error) {
				_ = b.Abandon(ctx, last)
				return b.Ping(ctx)
			}}
		},
	},
	{
		Name: "ping-has-moods", Is: "Ping does not always say the same of what it asks",
		CaughtBy: []string{"optional/ping"}, Sees: "before",
		broken: func(b *Backend) driver.Backend {
			n := 0
			return pinging{b, func(ctx context.Context) (string, error) {
				n++
				_, err := b.Ping(ctx)
				return fmt.Sprint(n), err
			}}
		},
	},
	{
		Name: "ping-outstays", Is: "Ping waits for the server, whatever its context says",
		CaughtBy: []string{"optional/ping-silent-server"}, Sees: "after its context's end",
		broken: func(b *Backend) driver.Backend {
			return pinging{b, func(ctx context.Context) (string, error) {
				patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
				defer cancel()
				return b.Ping(patient)
			}}
		},
	},
	{
		Name: "ping-does-not-know", Is: "the outcome of a Ping that was not answered is called unknown",
		CaughtBy: []string{"optional/ping-silent-server"}, Sees: driver.ErrUnknown.Error(),
		broken: func(b *Backend) driver.Backend {
			return pinging{b, func(ctx context.Context) (string, error) {
				question, err := b.Ping(ctx)
				if ctx.Err() != nil {
					err = errors.Join(driver.ErrUnknown, ctx.Err())
				}
				return question, err
			}}
		},
	},
}

// pinging is a backend with another Ping.
type pinging struct {
	driver.Backend
	ping func(context.Context) (string, error)
}

// Ping implements driver.Pinger.
func (b pinging) Ping(ctx context.Context) (string, error) { return b.ping(ctx) }
