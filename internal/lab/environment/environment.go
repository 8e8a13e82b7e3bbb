// Package environment arranges real servers for tests: one Redis, five of them under Redlock, an etcd cluster. It starts them, leads clients to them through
// proxies, and does what operators and failing machines do: delete a lock, restart a server, promote a replica, lose a disk. It names no backend, so
// that the tests of each backend can use it; who opens a URL imports the backend.
package environment

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Environment is an arrangement of servers that can be started.
type Environment struct {
	// Name is short: "redis", "redis-failover", "etcd".
	Name string
	// Title describes the servers for people: "one Redis", "Redis with a replica and Sentinels".
	Title string
	// Backend is the name of the backend that locks here.
	Backend string
	// TTL is what workers use.
	TTL time.Duration
	// Margin is how much earlier the deadline of a hold is than its last renewal's sending + TTL.
	Margin time.Duration
	// Sessions says that the server frees a claim when its worker's connection ends, not only when the TTL has passed.
	Sessions bool
	// Tokens says that holds have fencing tokens.
	Tokens bool
	// Readers and Permits say that the backend has them.
	Readers, Permits bool
	// RemovalNotice bounds how long the holder of a removed claim believes in it while the network is well (docs/guarantees.md, P3b).
	RemovalNotice time.Duration
	// Local says that workers reach the locks without a network.
	Local bool
	// Variant says that another environment differs in little, such as a version. Variants are for long runs.
	Variant bool
	// Needs are the kinds of servers, as LOCKPORT_TEST_REQUIRE names them.
	Needs []string

	// Start starts the servers: see Open.
	Start func(ctx context.Context) (Servers, error)
}

// Servers are the servers of an environment that runs. Methods that an environment cannot offer return an error that matches
// [errors.ErrUnsupported]. Safe for concurrent use.
type Servers interface {
	// Addrs are the servers that each endpoint reaches through a proxy of its own. None: clients reach the servers directly.
	Addrs() []string
	// URL is what a client opens to reach the servers at addrs, which are in the order of Addrs.
	URL(addrs []string) string
	// Nodes are the servers that grant the locks together, in the order of Addrs. There are none where the locks are files, or where another server may
	// take over.
	Nodes() []*servers.Server
	// Heal makes the servers serve again, whatever was done to them, and returns when they do.
	Heal(ctx context.Context) error
	// Close ends the servers.
	Close() error
	// Log is the end of what the servers printed.
	Log() string

	// Remove takes the lock on name away from its holder, as an operator does with their own tools. [ErrNotHeld]: nobody has it.
	Remove(ctx context.Context, name string) error
	// Overwrite makes somebody who is no lockport client the holder of name, until Remove.
	Overwrite(ctx context.Context, name string) error
	// Leftovers lists what the servers keep for names that start with prefix, save what stays on purpose.
	Leftovers(ctx context.Context, prefix string) ([]string, error)
	// Restart restarts all servers that run, with their data or without.
	Restart(ctx context.Context, keepData bool) error
	// Leader is the index in Nodes of the one that leads.
	Leader(ctx context.Context) (int, error)
	// Lag makes the replica miss what its primary does from now on, until FailOver or Heal.
	Lag(ctx context.Context) error
	// FailOver kills the primary and promotes its replica. Addrs then lead there. Existing endpoints follow by [Endpoint.Retarget].
	FailOver(ctx context.Context) error
	// LoseDisk kills a node, wipes its disk and starts it again. If it does not come back, it has its disk again and is down.
	LoseDisk(ctx context.Context, i int) (back bool, err error)
}

// ErrNotHeld is returned when the lock that was to be taken away has no holder.
var ErrNotHeld = errors.New("nobody holds the lock that was to be taken away")

// Running is an [Environment] that runs.
type Running struct {
	*Environment
	Servers
}

// Open starts the servers. ctx bounds the start. The caller must Close them. A server that is not installed is a *servers.NotInstalled.
func (e *Environment) Open(ctx context.Context) (*Running, error) {
	s, err := e.Start(ctx)
	if err != nil {
		return nil, err
	}
	return &Running{e, s}, nil
}

// Endpoint is how one worker process reaches the servers.
type Endpoint struct {
	// URL is what it opens.
	URL string
	// Links are the proxies before the servers, one for each.
	Links faultproxy.Group
}

// Endpoint makes a place for one more worker process. Two endpoints share nothing but the servers. Its user closes it.
func (r *Running) Endpoint() (*Endpoint, error) {
	p := &Endpoint{}
	var through []string
	for _, addr := range r.Addrs() {
		link, err := faultproxy.New(addr)
		if err != nil {
			p.Close()
			return nil, err
		}
		p.Links = append(p.Links, link)
		through = append(through, link.Addr())
	}
	p.URL = r.URL(through)
	return p, nil
}

// Retarget leads new connections to the servers at addrs, which are in the order of Addrs.
func (p *Endpoint) Retarget(addrs []string) error {
	var errs []error
	for i, addr := range addrs {
		errs = append(errs, p.Links[i].Retarget(addr))
	}
	return errors.Join(errs...)
}

// Close closes the links.
func (p *Endpoint) Close() { p.Links.Close() }
