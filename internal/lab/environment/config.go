package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
)

// lanes is how many cases that need a fault run concurrently.
const lanes = 4

// Config configures a run of the conformance suite, with every fault that this environment can inject. Target and the lanes lead through proxies;
// Direct bypasses them. open opens a backend. isOp recognises the requests of the backend's client; nil: none. First kill the nodes that shall stay
// dead.
func (r *Running) Config(t testing.TB, open func(ctx context.Context, url string) (driver.Backend, error), isOp func(conformance.Op, []byte) bool) conformance.Config {
	t.Helper()
	c := r.Unproxied(open)
	c.Direct = c.Target
	server := c.Faults
	first := r.lane(t, server, isOp)
	c.Target, c.Faults = first.Target, first.Faults
	c.Faults.Restart = server.Restart
	for i := range c.Lanes {
		c.Lanes[i] = r.lane(t, server, isOp)
	}
	return c
}

// lane returns a lane whose connections go through proxies of its own. server holds the faults that need no proxy.
func (r *Running) lane(t testing.TB, server conformance.Faults, isOp func(conformance.Op, []byte) bool) conformance.Lane {
	t.Helper()
	endpoint, err := r.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(endpoint.Close)
	var live faultproxy.Group
	nodes := r.Nodes()
	for i, link := range endpoint.Links {
		if i >= len(nodes) || nodes[i].Thaw() == nil { // it is an error if the node is down
			live = append(live, link)
		}
	}
	var f conformance.Faults
	if len(live) > 0 {
		f = live.Faults(isOp)
	}
	f.Remove, f.Overwrite, f.Leftovers = server.Remove, server.Overwrite, server.Leftovers
	return conformance.Lane{Target: endpoint.URL, Faults: f}
}

// Unproxied is Config without proxies: Target leads to the servers directly, and only the servers can inject faults.
func (r *Running) Unproxied(open func(ctx context.Context, url string) (driver.Backend, error)) conformance.Config {
	c := conformance.Config{Open: open, Target: r.URL()}
	c.Faults.Remove = func(ctx context.Context, name string) error {
		if err := r.Remove(ctx, name); !errors.Is(err, ErrNotHeld) {
			return err
		}
		return nil
	}
	c.Faults.Overwrite, c.Faults.Leftovers = r.Overwrite, r.Leftovers
	if r.Local {
		c.Faults.Leftovers = func(ctx context.Context, prefix string) ([]string, error) { return listed(ctx, c, prefix) }
	}
	c.Lanes = slices.Repeat([]conformance.Lane{{Target: c.Target, Faults: c.Faults}}, lanes) // these faults touch single names
	c.Faults.Restart = r.Restart
	p, _ := r.Servers.(*Postgres)
	if p == nil {
		return c
	}
	if locks, ok := p.Servers.(*sessions); ok {
		c.Open = func(ctx context.Context, url string) (driver.Backend, error) {
			b, err := open(ctx, url)
			if err != nil {
				return nil, err
			}
			return &recorder{b, &locks.names}, nil
		}
	}
	return c
}

// listed returns the locks that the backend itself lists.
func listed(ctx context.Context, c conformance.Config, prefix string) (names []string, err error) {
	b, err := c.Open(ctx, c.Target)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	all, err := b.(driver.Inspector).List(ctx, prefix)
	for _, s := range all {
		names = append(names, fmt.Sprintf("%+v", s))
	}
	return names, err
}
