package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/driver"
)

// pingCases are about driver.Pinger.
var pingCases = []Case{
	{
		Group: "optional", Name: "ping", Quick: true,
		Rule: "contract: Ping of a server that is well succeeds, says always the same of what it asks, and touches no lock",
		Run: func(_ context.Context, e *Env) error {
			p, other, fresh := e.party(), e.party(), e.party()
			ping := e.pinger(p)
			e.pinger(fresh).succeeds() // which nothing was asked of before
			name := e.name()
			lease := p.claim(name)
			for range 5 {
				ping.succeeds()
			}
			other.finds(name, "its holder has not released it")
			p.release(lease)
			other.free(name, "it was released")
			ended, cancel := context.WithCancel(e.ctx)
			cancel()
			if err := ping.fails(ended); err == nil {
				e.failf("Ping with a context that had ended succeeded")
			}
			return nil
		},
	},
	{
		Group: "optional", Name: "ping-silent-server", Needs: []Need{NeedFreeze},
		Rule: "contract: Ping of a server that is silent returns soon after its context's end and is ErrUnavailable; it succeeds when the server answers again",
		Run: func(_ context.Context, e *Env) error {
			connected, fresh := e.pinger(e.party()), e.pinger(e.party())
			connected.succeeds()
			e.freeze()
			for range 2 {
				for _, ping := range []*pinger{connected, fresh} {
					const limit = 100 * time.Millisecond
					ctx, cancel := context.WithTimeout(e.ctx, limit)
					start := time.Now()
					err := ping.fails(ctx)
					cancel()
					if err == nil {
						e.failf("Ping succeeded, of a server that is silent")
					}
					if late := time.Since(start) - limit; late > endTime {
						e.failf("Ping returned %v after its context's end", late)
					}
				}
			}
			e.restore()
			connected.recovers()
			fresh.recovers()
			return nil
		},
	},
	{
		Group: "optional", Name: "ping-server-gone", Needs: []Need{NeedSever},
		Rule: "P10 errors: Ping of a server that is not there is ErrUnavailable, in time, in one line without the password",
		Run: func(_ context.Context, e *Env) error {
			connected, fresh := e.pinger(e.party()), e.pinger(e.party())
			connected.succeeds()
			e.sever()
			for _, ping := range []*pinger{connected, fresh, connected} {
				ctx, cancel := e.timed()
				err := ping.fails(ctx)
				if err == nil {
					e.failf("Ping succeeded, of a server that is not there")
				}
				if ctx.Err() != nil {
					e.failf("Ping did not return within %v", callTime)
				}
				cancel()
				e.noPassword(err)
			}
			return nil
		},
	},
}

// pinger is a driver.Pinger under test.
type pinger struct {
	driver.Pinger
	e     *Env
	asked string // what it said that it asks
}

// pinger finds the Pinger of p, or ends the case.
func (e *Env) pinger(p *party) *pinger {
	found, ok := driver.As[driver.Pinger](p.Backend)
	if !ok {
		e.notRun("the backend is no driver.Pinger")
	}
	return &pinger{Pinger: found, e: e}
}

// ping makes one, and holds what it says of its question against what it said before.
func (p *pinger) ping(ctx context.Context) error {
	question, err := p.Ping(ctx)
	if question == "" || p.asked != "" && question != p.asked {
		p.e.failf("Ping says that it asks %q; before, %q", question, p.asked)
	}
	p.asked = question
	return err
}

// succeeds pings a server that is well.
func (p *pinger) succeeds() {
	ctx, cancel := p.e.timed()
	defer cancel()
	p.e.check(p.ping(ctx), "Ping of a server that is well")
}

// recovers pings a server that is well again until that succeeds: what was connected to it may have to be connected anew.
func (p *pinger) recovers() {
	var err error
	ok := poll(p.e.ctx, p.e.takeover()+callTime, func() bool {
		ctx, cancel := p.e.timed()
		defer cancel()
		err = p.ping(ctx)
		return err == nil
	})
	if !ok {
		p.e.failf("the server is well again, but Ping fails: %w", err)
	}
}

// fails pings, and holds the error against the contract. It returns nil if there was none.
func (p *pinger) fails(ctx context.Context) error {
	err := p.ping(ctx)
	if err == nil {
		return nil
	}
	if !errors.Is(err, driver.ErrUnavailable) {
		p.e.failf("Ping returned: %w", err)
	}
	p.e.check(oneClass(err), "Ping")
	return err
}
