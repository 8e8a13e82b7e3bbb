package worlds

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"

	_ "github.com/lockport/lockport/backend/etcd" // what workers open
)

const (
	etcdTTL = 2 * time.Second
	// etcdTick makes an election begin 0.6 to 1.2 s after the leader was last heard of. Shorter, and a busy machine elects leaders that nobody
	// asked for; longer, and an election takes more than what is left of a lease when its leader dies.
	etcdTick = 60 * time.Millisecond
	// etcdQuota is no more than the first step by which etcd lets its file grow once that is larger than a few megabytes, so that it is soon full.
	etcdQuota = 32 << 20
)

// Etcd is an etcd cluster of the version that is installed, EtcdCurrent one of the version that package etcdserver pins, which is built when it is
// first started.
var (
	Etcd        = etcdCluster("etcd", "three etcds", servers.EtcdOptions{}, 10)
	EtcdCurrent = etcdCluster("etcd-current", "three etcds of the current version", servers.EtcdOptions{Current: true}, 30)
)

// etcdCluster is an arrangement of three members. pausedTries is within how many plays a leader that was paused has a lease revoked.
func etcdCluster(name, title string, o servers.EtcdOptions, pausedTries int) faults.Arrangement {
	o.Tick, o.Cuttable = etcdTick, true
	o.Flags = []string{fmt.Sprint("--quota-backend-bytes=", etcdQuota)}
	return faults.Arrangement{
		Name:          name,
		Title:         title,
		Backend:       "etcd",
		TTL:           etcdTTL,
		Margin:        marginOf(etcdTTL),
		Tokens:        true,
		RemovalNotice: 250 * time.Millisecond,
		Needs:         []string{"etcd"},
		Start: func(ctx context.Context) (*faults.World, error) {
			c, err := servers.StartEtcdCluster(ctx, o)
			if err != nil {
				return nil, err
			}
			w := &etcds{nodes: c.Nodes, cluster: c}
			return &faults.World{
				Servers: w,
				Seat:    func() (*faults.Seat, error) { return seat(c.Addrs(), listURL("etcd://", "")) },
				Mend:    w.mend,
				Close:   c.Close,
				Log:     c.Log,
			}, nil
		},
		Cells: slices.Concat(faults.Common(false), etcdMemberCells(pausedTries), etcdRemovalCells, etcdSpaceCells),
	}
}

// etcds are what the strikes on etcds work on.
type etcds struct {
	nodes   []*servers.Etcd
	cluster *servers.EtcdCluster // nil: one that stands alone
}

func etcdsOf(p *faults.Phase) *etcds { return p.World.Servers.(*etcds) }

func (w *etcds) mend(ctx context.Context) error {
	if w.cluster != nil {
		w.cluster.Heal()
	}
	if err := revive(ctx, w.nodes); err != nil {
		return err
	}
	for _, node := range w.nodes {
		if err := etcdServes(ctx, node); err != nil {
			return fmt.Errorf("%s does not serve: %w", node.Addr(), err)
		}
	}
	return w.makeSpace(ctx)
}

// members implements cluster.
func (w *etcds) members() []member { return membersOf(w.nodes) }

func (w *etcds) lead(ctx context.Context) (int, error) {
	leader, err := w.cluster.Leader(ctx)
	return slices.Index(w.nodes, leader), err
}

func (w *etcds) follow(ctx context.Context, p *faults.Phase) (int, error) {
	leader, err := w.lead(ctx)
	return (leader + 1 + p.Rand.IntN(len(w.nodes)-1)) % len(w.nodes), err
}

// CutFromQuorum implements cluster.
func (w *etcds) CutFromQuorum(i int) { w.cluster.CutFromQuorum(i) }

// Heal implements cluster.
func (w *etcds) Heal() { w.cluster.Heal() }
