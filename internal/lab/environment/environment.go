// Package environment arranges real servers for tests: one Redis, five of them under Redlock, an etcd cluster. It starts them, leads clients to
// them through proxies, and acts as operators and failing machines do: deletes a lock, restarts a server, promotes a replica, loses a disk. It
// imports no backend, so that every backend's tests can use it. The code that opens a URL imports the backend.
package environment

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Environment is an arrangement of servers that can be started.
type Environment struct {
	// Name is short: "redis", "redis-failover", "etcd".
	Name string
	// Title describes the servers to readers: "one Redis", "Redis with a replica and Sentinels".
	Title string
	// Backend is the name of the backend that locks here.
	Backend string
	// TTL is the TTL of the workers' locks.
	TTL time.Duration
	// Margin is how much earlier a hold's deadline is than the sending of its last renewal plus the TTL.
	Margin time.Duration
	// Sessions says that the server frees a claim as soon as its worker's connection ends, before the TTL has passed.
	Sessions bool
	// Tokens says that holds have fencing tokens.
	Tokens bool
	// Readers and Permits say that the backend supports them.
	Readers, Permits bool
	// Local says that workers reach the locks without a network.
	Local bool

	// Start starts the servers: see Open.
	Start func(ctx context.Context) (Servers, error)
}

// Servers are the servers of a running environment. A method that the environment does not support returns an error that matches
// [errors.ErrUnsupported]. Safe for concurrent use.
type Servers interface {
	// URL returns the URL that leads to the servers directly.
	URL() string
	// Nodes returns the servers. Those behind the links of an [Endpoint] come first, in the order of the links. There are none if locks are files.
	Nodes() []*servers.Server
	// Heal makes the servers serve again after any fault, and returns when they do.
	Heal(ctx context.Context) error
	// Close ends the servers.
	Close() error
	// Log returns the end of the servers' logs.
	Log() string

	// Restart restarts all running servers, with their data or without.
	Restart(ctx context.Context, keepData bool) error
	// Leader returns the leader's index in Nodes.
	Leader(ctx context.Context) (int, error)
	// CutFromQuorum cuts a member of a quorum off from the others, but not from clients. Join ends all cuts.
	CutFromQuorum(i int)
	Join()
	// LoseDisk kills a node, wipes its disk and restarts it. If the node does not come back, it gets its disk back and stays down.
	LoseDisk(ctx context.Context, i int) (back bool, err error)
}

// Locks are what an operator can do with locks on servers.
type Locks interface {
	// Remove takes the lock on name away from its holder, with an operator's tools. [ErrNotHeld]: it has no holder.
	Remove(ctx context.Context, name string) error
	// Overwrite gives name to a holder that is no lockport client, until Remove.
	Overwrite(ctx context.Context, name string) error
	// Leftovers lists what the servers keep for names that start with prefix, except what stays on purpose.
	Leftovers(ctx context.Context, prefix string) ([]string, error)
}

// Pair are a primary and its replica.
type Pair interface {
	// Lag makes the replica miss the primary's writes from now on, until Promote or Heal.
	Lag(ctx context.Context) error
	// Promote makes the replica the primary, the first of Nodes. URL then leads there. Existing connections stay: see [Endpoint.Retarget].
	Promote(ctx context.Context) error
}

// ErrNotHeld means that the lock to remove has no holder.
var ErrNotHeld = errors.New("the lock to remove has no holder")

// Running is a running [Environment].
type Running struct {
	*Environment
	Servers
}

// Open starts the servers. ctx bounds the start. The caller must Close them. If a server is not installed, the error is a *servers.NotInstalled.
func (e *Environment) Open(ctx context.Context) (*Running, error) {
	s, err := e.Start(ctx)
	if err != nil {
		return nil, err
	}
	return &Running{e, s}, nil
}

// Revivals is how often servers were started again because they had ended by themselves.
func (r *Running) Revivals() (n int) {
	for _, s := range r.Nodes() {
		n += s.Revivals()
	}
	return n
}

// Endpoint is how one worker process reaches the servers.
type Endpoint struct {
	// URL is what the worker opens.
	URL string
	// Links are the proxies in front of the servers, one for each. None: [faultproxy.ForURL] says why.
	Links faultproxy.Group
}

// Endpoint makes an endpoint for one more worker process. Endpoints share nothing but the servers. The caller must close its links.
func (r *Running) Endpoint() (*Endpoint, error) {
	through, links, err := faultproxy.ForURL(r.URL())
	return &Endpoint{through, links}, err
}

// Retarget redirects new connections to the servers of rawURL.
func (p *Endpoint) Retarget(rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	addrs := strings.Split(u.Host, ",")
	for i, link := range p.Links {
		err = errors.Join(err, link.Retarget(addrs[i]))
	}
	return err
}

// base is the part that all environments share: the servers and how they are run.
type base struct {
	*servers.Set
	url func() string
	// restarts says that Restart restarts the servers, and forgets that it may also lose their data.
	restarts, forgets bool
	// reset undoes faults in servers that serve.
	reset func(ctx context.Context) error
	// open ends at Close: what the holders of Overwrite keep open is closed then.
	open context.Context
	end  context.CancelFunc
}

func baseOf(url func() string, all *servers.Set) base {
	open, end := context.WithCancel(context.Background())
	return base{Set: all, url: url, open: open, end: end, reset: func(context.Context) error { return nil }}
}

func (b *base) Nodes() []*servers.Server { return b.Servers }

func (b *base) URL() string { return b.url() }

func (b *base) Heal(ctx context.Context) error {
	b.Join()
	if err := Revive(ctx, b.Servers...); err != nil {
		return err
	}
	if err := AtOnce(b.Servers, func(s *servers.Server) error { return s.Serves(ctx) }); err != nil {
		return err
	}
	return b.reset(ctx)
}

func (b *base) Close() error {
	b.end()
	return b.Set.Close()
}

// Restart stops all running servers before it starts any of them.
func (b *base) Restart(ctx context.Context, keepData bool) error {
	switch {
	case !b.restarts:
		return cannot("restart the servers")
	case !keepData && !b.forgets:
		return cannot("restart the servers without their data")
	}
	up := slices.DeleteFunc(slices.Clone(b.Servers), isDown)
	if err := AtOnce(up, (*servers.Server).Stop); err != nil {
		return err
	}
	restart := (*servers.Server).Restart
	if !keepData {
		restart = (*servers.Server).RestartEmpty
	}
	return AtOnce(up, func(s *servers.Server) error { return restart(s, ctx) })
}

// isDown reports whether a server is down. It thaws a frozen one.
func isDown(s *servers.Server) bool { return s.Thaw() != nil }

// Revive makes servers run again after any fault. It does so concurrently, since one server may need the others.
func Revive(ctx context.Context, all ...*servers.Server) error {
	return AtOnce(all, func(s *servers.Server) error {
		if !isDown(s) {
			return nil
		}
		return s.Restart(ctx)
	})
}

// AtOnce calls f for all concurrently and returns their errors when all calls have returned.
func AtOnce[M any](all []M, f func(M) error) error {
	return errors.Join(worker.AtOnce(all, func(_ int, one M) error { return f(one) })...)
}

func cannot(what string) error { return fmt.Errorf("cannot %s: %w", what, errors.ErrUnsupported) }
