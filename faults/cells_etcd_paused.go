package faults

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

const (
	// etcdRevokes is how many leases a leader has revoked at the same time. The next ones wait until one of these is done, or given up.
	etcdRevokes = 16
	// etcdGivesUp is how long a member waits for what it has asked a majority for: 5 s and two election timeouts.
	etcdGivesUp = 5*time.Second + 2*10*environment.EtcdTick
)

// etcdLeaderPaused stops the leader for longer than the TTL, while a holder keeps its lease alive with the help of the others. Its connections to them
// have ended when it goes on, so that it first takes all leases that it knows for ended, and sets about having them revoked; it can only begin with a
// few, which come first since they end first. Then it learns that another leads, and follows. When it gives the few up, it turns to the others on its list, and
// has the one revoked that has been kept alive, by the leader that kept it alive. The holder does not hear of that for a moment.
func etcdLeaderPaused(ctx context.Context, p *play.Phase) error {
	e := etcdIn(p)
	at, err := e.Leader(ctx)
	if err != nil {
		return err
	}
	first, other := e.Members()[at], e.Members()[(at+1)%len(e.Members())]
	var workers []*play.Worker
	for range 2 {
		worker, err := p.Worker(ctx)
		if err != nil {
			return err
		}
		worker.Endpoint.Links[at].Cut() // it asks the others
		workers = append(workers, worker)
	}
	older, newer := workers[0], workers[1]
	had, err := older.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
	if err != nil {
		return err
	}
	if err := grantLeases(ctx, other, etcdRevokes); err != nil {
		return err
	}
	p.Injected()
	e.CutFromQuorum(at)
	if err := first.Freeze(); err != nil {
		return err
	}
	if err := p.Sleep(ctx, p.Environment.TTL+p.Between(p.Environment.TTL/8, p.Environment.TTL/4)); err != nil {
		return err
	}
	if err := first.Thaw(); err != nil {
		return err
	}
	const learns = 200 * time.Millisecond // it has looked for ended leases by then, and has not yet noticed that nobody answers
	if err := p.Sleep(ctx, learns); err != nil {
		return err
	}
	e.Join()
	p.Healed()
	if err := p.Sleep(ctx, etcdGivesUp-learns-p.Environment.TTL/8); err != nil {
		return err
	}
	older.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
	has, err := newer.Acquire(ctx, p.Name(), p.Environment.TTL/2)
	if err != nil {
		p.Note("the lease was not revoked: %v", err) // the next play may see it
		return nil
	}
	return p.Both(ctx, had, has)
}

// grantLeases makes n leases of a second, which nobody keeps alive.
func grantLeases(ctx context.Context, node *servers.Etcd, n int) error {
	return environment.AtEtcd(node, func(c *clientv3.Client) error {
		return environment.AtOnce(make([]struct{}, n), func(struct{}) error {
			_, err := c.Grant(ctx, 1)
			return err
		})
	})
}
