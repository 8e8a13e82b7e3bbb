package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// lanes is how many cases that need a fault run concurrently.
const lanes = 4

// Config configures a run of the conformance suite, with every fault that this environment can inject. Target and the lanes lead through proxies;
// Direct bypasses them. isOp recognizes the requests of the backend's client; nil: none. First kill the nodes that shall stay dead.
func (r *Running) Config(t testing.TB, open func(ctx context.Context, url string) (driver.Backend, error), isOp func(conformance.Op, []byte) bool) conformance.Config {
	t.Helper()
	c := r.Unproxied(open)
	all, end, err := r.Lanes(isOp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	for i := range all {
		f := &all[i].Faults
		f.Remove, f.Overwrite, f.Leftovers = c.Faults.Remove, c.Faults.Overwrite, c.Faults.Leftovers
	}
	all[0].Faults.Restart = c.Faults.Restart
	c.Direct, c.Target, c.Faults, c.Lanes = c.Target, all[0].Target, all[0].Faults, all[1:]
	return c
}

// Lanes makes ways to the servers, each through proxies of its own, with the faults of the network. The first is for Config.Target and Config.Faults
// of the suite, the others are for Config.Lanes. isOp is as for Config. The caller must call end.
func (r *Running) Lanes(isOp func(conformance.Op, []byte) bool) (all []conformance.Lane, end func(), err error) {
	var links faultproxy.Group
	nodes := r.Nodes()
	for range 1 + lanes {
		endpoint, err := r.Endpoint()
		if err != nil {
			links.Close()
			return nil, nil, err
		}
		links = append(links, endpoint.Links...)
		var live faultproxy.Group
		for i, link := range endpoint.Links {
			if i >= len(nodes) || !isDown(nodes[i]) {
				live = append(live, link)
			}
		}
		lane := conformance.Lane{Target: endpoint.URL}
		if len(live) > 0 {
			lane.Faults = live.Faults(isOp)
			if voters, ok := r.Servers.(*Redis); ok && voters.quorum > 0 { // what the others confirm must not count
				lane.Faults.Sever = live[:voters.quorum].Faults(isOp).Sever
			}
		}
		all = append(all, lane)
	}
	return all, links.Close, nil
}

// Unproxied is Config without proxies: Target leads to the servers directly, and only the servers can inject faults.
func (r *Running) Unproxied(open func(ctx context.Context, url string) (driver.Backend, error)) conformance.Config {
	c, locks := conformance.Config{Open: open, Target: r.URL()}, r.Servers.(Locks)
	c.Faults.Remove = func(ctx context.Context, name string) error {
		if err := locks.Remove(ctx, name); !errors.Is(err, ErrNotHeld) {
			return err
		}
		return nil
	}
	c.Faults.Overwrite, c.Faults.Leftovers = locks.Overwrite, locks.Leftovers
	if r.Local {
		c.Faults.Leftovers = func(ctx context.Context, prefix string) ([]string, error) { return listed(ctx, c, prefix) }
	}
	c.Lanes = slices.Repeat([]conformance.Lane{{Target: c.Target, Faults: c.Faults}}, lanes) // these faults touch single names
	c.Faults.Restart = r.Restart
	if p, ok := r.Servers.(*SQL); ok {
		if s, ok := p.Locks.(*sessions); ok {
			c.Open = s.record(open)
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

// Need starts the environment called name: see [Environment.Need].
func Need(t testing.TB, name string) *Running {
	t.Helper()
	e, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return e.Need(t)
}

// Need starts the servers for t and closes them when t ends. If servers are not installed, it skips or fails t by the rules of package servers.
func (e *Environment) Need(t testing.TB) *Running {
	t.Helper()
	return servers.Need(t, e.Title, e.Local, func() (*Running, error) { return e.Open(context.Background()) })
}

// full says that every environment runs every case: make soak sets this variable.
var full = os.Getenv("LOCKPORT_TEST_FULL") != ""

// OnlyInSoak skips t unless every environment runs every case.
func OnlyInSoak(t testing.TB) {
	t.Helper()
	if !full {
		t.Skip("runs in soaks alone: set LOCKPORT_TEST_FULL, as make soak does")
	}
}

// Breakable selects the cases that a variant of an environment can break although the environment itself passes them. They depend on how servers
// are found, on which server is asked, and on what servers do on their own. docs/testing.md says where it is used. more names additional groups,
// such as "names", "optional" and "close", for a variant that differs in more than its servers. In a soak it selects every case.
func Breakable(more ...string) conformance.RunOption {
	groups := append([]string{"contract", "fencing", "removal", "waiting"}, more...)
	cases := []string{"exclusion/two-backends", "exclusion/processes", "crash/holder", "crash/waiter", "cost/held-locks", "liveness/server-restarted"}
	return conformance.Match(func(c conformance.Case) bool {
		return full || slices.Contains(groups, c.Group) || slices.Contains(cases, c.ID())
	})
}
