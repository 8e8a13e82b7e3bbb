package environment

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
)

// Config is that of a run of the conformance suite, with every fault that can be produced here. Target leads through proxies, Direct past them. open makes
// a backend of a URL. isOp recognises the requests of the backend's client; nil: none. Call it after nodes that are to stay dead were killed.
func (r *Running) Config(t testing.TB, open func(ctx context.Context, url string) (driver.Backend, error), isOp func(conformance.Op, []byte) bool) conformance.Config {
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
	c := r.Unproxied(open)
	c.Target, c.Direct = endpoint.URL, c.Target
	if len(live) > 0 {
		server := c.Faults
		c.Faults = live.Faults(isOp)
		c.Faults.Remove, c.Faults.Overwrite, c.Faults.Restart, c.Faults.Leftovers = server.Remove, server.Overwrite, server.Restart, server.Leftovers
	}
	return c
}

// Unproxied is Config without proxies: Target leads straight to the servers, and only they produce faults.
func (r *Running) Unproxied(open func(ctx context.Context, url string) (driver.Backend, error)) conformance.Config {
	c := conformance.Config{Open: open, Target: r.URL(r.Addrs())}
	c.Faults.Remove = func(ctx context.Context, name string) error {
		if err := r.Remove(ctx, name); !errors.Is(err, ErrNotHeld) {
			return err
		}
		return nil
	}
	c.Faults.Overwrite, c.Faults.Restart, c.Faults.Leftovers = r.Overwrite, r.Restart, r.Leftovers
	if s, ok := r.Servers.(interface {
		noteNames(driver.Backend) driver.Backend
	}); ok {
		c.Open = func(ctx context.Context, url string) (driver.Backend, error) {
			b, err := open(ctx, url)
			if err != nil {
				return nil, err
			}
			return s.noteNames(b), nil
		}
	}
	if r.Local {
		c.Faults.Leftovers = func(ctx context.Context, prefix string) ([]string, error) { return listed(ctx, c, prefix) }
	}
	return c
}

// listed are the locks that the backend itself lists.
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
