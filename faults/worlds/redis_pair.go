package worlds

import (
	"context"
	"errors"
	"slices"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// RedisFailover is a master with a replica that somebody promotes by hand, as managed services do: clients know one address, which then
// leads to the other server.
var RedisFailover = redisPairOf(faults.Arrangement{
	Name:  "redis-failover",
	Title: "Redis with a replica that is promoted",
	Cells: slices.Concat(faults.Common(false), redisFailoverCells),
}, "/0")

// RedisReplicas is the same, where every grant and renewal waits until the replica has it.
var RedisReplicas = redisPairOf(faults.Arrangement{
	Name:  "redis-replicas",
	Title: "Redis with a replica that acknowledges (replicas=1)",
	Cells: slices.Concat(faults.Common(false), redisReplicasCells),
}, "/0?replicas=1&wait_timeout=300ms")

// redisPairOf completes an arrangement of two servers without persistence, whose URL ends with path.
func redisPairOf(a faults.Arrangement, path string) faults.Arrangement {
	a.Backend = "redis"
	a.TTL = redisTTL
	a.Margin = marginOf(redisTTL)
	a.Tokens = true
	a.RemovalNotice = redisNotice(redisTTL)
	a.Needs = []string{"redis"}
	a.Start = func(ctx context.Context) (*faults.World, error) {
		w := &redisPair{}
		if err := w.start(ctx); err != nil {
			return nil, errors.Join(err, w.close())
		}
		return &faults.World{
			Seat:    func() (*faults.Seat, error) { return seat([]string{w.address.Addr()}, listURL("redis://", path)) },
			Mend:    w.mend,
			Close:   w.close,
			Log:     w.log,
			Servers: w,
		}, nil
	}
	return a
}

// redisPair is a master and its replica.
type redisPair struct {
	master, replica *servers.Redis
	// address is where clients find the master, link where the replica does.
	address, link *faultproxy.Proxy
}

func redisPairIn(p *faults.Phase) *redisPair { return p.World.Servers.(*redisPair) }

func (w *redisPair) start(ctx context.Context) (err error) {
	if w.master, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
		return err
	}
	if w.replica, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
		return err
	}
	if w.address, err = faultproxy.New(w.master.Addr()); err != nil {
		return err
	}
	if w.link, err = faultproxy.New(w.master.Addr()); err != nil {
		return err
	}
	return w.replica.Follow(ctx, w.master, w.link.Addr())
}

// promote makes the replica the master, and the address lead to it. The connections that live stay as they are. The old master is the
// replica now, but does not know it: see follow.
func (w *redisPair) promote(ctx context.Context) error {
	if err := w.replica.Promote(ctx); err != nil {
		return err
	}
	w.master, w.replica = w.replica, w.master
	return w.address.Retarget(w.master.Addr())
}

// follow has the replica run, and copy what the master has.
func (w *redisPair) follow(ctx context.Context) error {
	w.link.Restore()
	if err := revive(ctx, []*servers.Redis{w.replica}); err != nil {
		return err
	}
	if err := w.link.Retarget(w.master.Addr()); err != nil {
		return err
	}
	return w.replica.Follow(ctx, w.master, w.link.Addr())
}

func (w *redisPair) mend(ctx context.Context) error {
	w.address.Restore()
	if err := revive(ctx, []*servers.Redis{w.master}); err != nil {
		return err
	}
	if err := w.master.Promote(ctx); err != nil { // nothing, if it is the master
		return err
	}
	return w.follow(ctx)
}

func (w *redisPair) close() error {
	var errs []error
	for _, server := range []*servers.Redis{w.master, w.replica} {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	for _, proxy := range []*faultproxy.Proxy{w.address, w.link} {
		if proxy != nil {
			errs = append(errs, proxy.Close())
		}
	}
	return errors.Join(errs...)
}

func (w *redisPair) log() string {
	return "--- master\n" + w.master.Log() + "--- replica\n" + w.replica.Log()
}
