package environment

import (
	"context"
	"errors"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// redisFailover is a master with a replica that somebody promotes by hand, as managed services do. Clients know one address, which then leads to the other
// server. In redisReplicas every grant and renewal waits until the replica has it.
var (
	redisFailover = redisPairOf("redis-failover", "Redis with a replica that is promoted", "")
	redisReplicas = redisPairOf("redis-replicas", "Redis with a replica that acknowledges (replicas=1)", "?replicas=1&wait_timeout=300ms")
)

func redisPairOf(name, title, query string) Environment {
	return redisOf(name, title, func(ctx context.Context) (Servers, error) {
		p := &RedisPair{query: query}
		if err := p.start(ctx); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		do := func(ctx context.Context, args ...any) (any, error) { return p.Master.Do(ctx, args...) }
		p.redisKeys = hiddenKeys(title, []*servers.Redis{p.Master, p.Replica}, do)
		return p, nil
	})
}

// RedisPair is a master and its replica, without persistence.
type RedisPair struct {
	redisKeys
	Master, Replica *servers.Redis
	// Address is where clients find the master, and Link where the replica does.
	Address, Link *faultproxy.Proxy
	query         string
}

func (p *RedisPair) start(ctx context.Context) (err error) {
	for _, server := range []**servers.Redis{&p.Master, &p.Replica} {
		if *server, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
			return err
		}
		p.nodes = append(p.nodes, *server)
	}
	for _, proxy := range []**faultproxy.Proxy{&p.Address, &p.Link} {
		if *proxy, err = faultproxy.New(p.Master.Addr()); err != nil {
			return err
		}
	}
	return p.Replica.Follow(ctx, p.Master, p.Link.Addr())
}

// Addrs implements Servers.
func (p *RedisPair) Addrs() []string { return []string{p.Address.Addr()} }

// URL implements Servers.
func (p *RedisPair) URL(addrs []string) string { return redisURL(addrs, p.query) }

// Promote makes the replica the master and leads the address there. Live connections stay as they are. The old master is the replica now, but does
// not know it: see Follow.
func (p *RedisPair) Promote(ctx context.Context) error {
	if err := p.Replica.Promote(ctx); err != nil {
		return err
	}
	p.Master, p.Replica = p.Replica, p.Master
	return p.Address.Retarget(p.Master.Addr())
}

// Follow makes the replica run and copy the master.
func (p *RedisPair) Follow(ctx context.Context) error {
	p.Link.Restore()
	return inOrder(ctx, running(p.Replica),
		func(context.Context) error { return p.Link.Retarget(p.Master.Addr()) },
		func(ctx context.Context) error { return p.Replica.Follow(ctx, p.Master, p.Link.Addr()) })
}

// Heal implements Servers.
func (p *RedisPair) Heal(ctx context.Context) error {
	p.Address.Restore()
	return inOrder(ctx, running(p.Master), p.Master.Promote, p.Follow) // Promote does nothing if it is the master
}

// Lag implements Servers.
func (p *RedisPair) Lag(context.Context) error { p.Link.Freeze(); return nil }

// FailOver implements Servers. The old master then runs as the replica.
func (p *RedisPair) FailOver(ctx context.Context) error {
	return inOrder(ctx, now(p.Master.Kill), p.Promote, p.Follow)
}

// Close implements Servers.
func (p *RedisPair) Close() error {
	for _, proxy := range []*faultproxy.Proxy{p.Address, p.Link} {
		if proxy != nil {
			_ = proxy.Close()
		}
	}
	return p.base.Close()
}
