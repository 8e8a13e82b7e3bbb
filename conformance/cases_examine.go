package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

// examineCases are about driver.Examiner.
var examineCases = []Case{
	{
		Group: "optional", Name: "examine", Quick: true,
		Rule: "contract: Examine of a server that is well returns notices that say what to do, and touches no lock",
		Run: func(_ context.Context, e *Env) error {
			p, other := e.party(), e.party()
			examiner := e.examiner(p)
			name := e.name()
			lease := p.claim(name)
			ctx, cancel := e.timed()
			defer cancel()
			found, err := examiner.Examine(ctx, e.ttl)
			e.check(err, "Examine")
			for _, n := range found.Notices {
				if n.ID == "" || n.Text == "" || n.Remedy == "" {
					e.failf("a notice lacks its ID, text or remedy: %+v", n)
				}
				e.noPassword(errors.New(n.Text + n.Remedy))
			}
			if found.TTL < 0 {
				e.failf("Examine says that a claim for %v is granted %v", e.ttl, found.TTL)
			}
			other.finds(name, "its holder has not released it")
			p.release(lease)
			other.free(name, "it was released")
			return nil
		},
	},
	{
		Group: "optional", Name: "examine-silent-server", Needs: []Need{NeedFreeze},
		Rule: "contract: Examine of a server that is silent returns soon after its context's end and is ErrUnavailable",
		Run: func(_ context.Context, e *Env) error {
			connected, fresh := e.party(), e.party()
			ctx, cancel := e.timed()
			_, err := e.examiner(connected).Examine(ctx, e.ttl)
			cancel()
			e.check(err, "Examine")
			e.freeze()
			for _, p := range []*party{connected, fresh} {
				const limit = 100 * time.Millisecond
				ctx, cancel := context.WithTimeout(e.ctx, limit)
				start := time.Now()
				_, err := e.examiner(p).Examine(ctx, e.ttl)
				cancel()
				if !errors.Is(err, driver.ErrUnavailable) {
					e.failf("Examine returned: %w", orNone(err))
				}
				e.noPassword(err)
				if late := time.Since(start) - limit; late > endTime {
					e.failf("Examine returned %v after its context's end", late)
				}
			}
			return nil
		},
	},
}

// examiner finds the Examiner of p, or ends the case.
func (e *Env) examiner(p *party) driver.Examiner {
	found, ok := driver.As[driver.Examiner](p.Backend)
	if !ok {
		e.notRun("the backend is no driver.Examiner")
	}
	return found
}
