package environment

import (
	"context"
	"errors"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// RedisPair is a master and its replica, without persistence. The replica is promoted by hand, as in managed services.
type RedisPair struct {
	*Redis
	Master, Replica *servers.Redis
	// Link is the replica's link to the master. Only a proxy cuts it silently: a master that refused its replica would count none, and a client that
	// requires one could not even open.
	Link *faultproxy.Proxy
}

// startRedisPair starts a pair. With replicas=1 in query, every grant and renewal waits for the replica's acknowledgement.
func startRedisPair(query string) starter {
	return func(ctx context.Context) (Servers, error) {
		master, replica, err := startMasterAndReplica(ctx)
		if err != nil {
			return nil, err
		}
		p := &RedisPair{Master: master, Replica: replica}
		p.Redis = redisOf(func() string { return p.Master.URL() + query }, servers.SetOf(master.Server, replica.Server), master, replica)
		p.Do = func(ctx context.Context, args ...any) (any, error) { return p.Master.Do(ctx, args...) }
		if p.Link, err = faultproxy.New(master.Addr()); err != nil {
			return nil, errors.Join(err, p.Redis.Close())
		}
		p.reset = func(ctx context.Context) error {
			if err := p.Master.Promote(ctx); err != nil { // does nothing to a master
				return err
			}
			return p.Follow(ctx)
		}
		if err := p.Follow(ctx); err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return p, nil
	}
}

func startMasterAndReplica(ctx context.Context) (master, replica *servers.Redis, err error) {
	if master, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
		return nil, nil, err
	}
	if replica, err = servers.StartReplica(ctx, master); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, replica, nil
}

// Promote makes the replica the master. Existing connections stay. The old master is now Replica, but does not know it until Follow.
func (p *RedisPair) Promote(ctx context.Context) error {
	if err := p.Replica.Promote(ctx); err != nil {
		return err
	}
	p.Master, p.Replica = p.Replica, p.Master
	return nil
}

// Follow restarts the replica if needed and makes it replicate the master.
func (p *RedisPair) Follow(ctx context.Context) error {
	p.Link.Restore()
	if err := errors.Join(Revive(ctx, p.Replica.Server), p.Link.Retarget(p.Master.Addr())); err != nil {
		return err
	}
	return p.Replica.Follow(ctx, p.Master, p.Link.Addr())
}

// Lag implements Servers.
func (p *RedisPair) Lag(context.Context) error { p.Link.Freeze(); return nil }

// FailOver implements Servers. The old master stays down until Follow: clients that still connect there would find a replica.
func (p *RedisPair) FailOver(ctx context.Context) error {
	if err := p.Master.Kill(); err != nil {
		return err
	}
	return p.Promote(ctx)
}

// Close implements Servers.
func (p *RedisPair) Close() error {
	return errors.Join(p.Link.Close(), p.Redis.Close())
}
