package worlds

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"

	_ "github.com/lockport/lockport/backend/zookeeper" // what workers open
)

const zooKeeperTTL = 2 * time.Second

// zooKeeperSync is how many ticks of 100 ms nodes hear nothing from each other until they believe it. Fewer, and a busy machine elects leaders
// that nobody asked for; more, and a session is over when a leader has fallen silent.
const zooKeeperSync = "syncLimit=15"

// ZooKeeper is an ensemble.
var ZooKeeper = faults.Arrangement{
	Name:          "zookeeper",
	Title:         "three ZooKeepers",
	Backend:       "zookeeper",
	TTL:           zooKeeperTTL,
	Margin:        marginOf(zooKeeperTTL),
	Tokens:        true,
	RemovalNotice: 500 * time.Millisecond,
	Needs:         []string{"zookeeper"},
	Start: func(ctx context.Context) (*faults.World, error) {
		e, err := servers.StartEnsemble(ctx, servers.ZooKeeperOptions{Config: []string{zooKeeperSync}})
		if err != nil {
			return nil, err
		}
		w := &zooKeepers{nodes: e.Nodes, ensemble: e}
		return &faults.World{
			Servers: w,
			Seat:    func() (*faults.Seat, error) { return seat(e.Addrs(), zooKeeperURL(zooKeeperTTL)) },
			Mend:    w.mend,
			Close:   e.Close,
			Log:     e.Log,
		}, nil
	},
	Cells: slices.Concat(faults.Common(false), zooKeeperMemberCells, zooKeeperRemovalCells),
}

// zooKeeperURL makes the URL that a worker opens: through other addresses, and with our TTL.
func zooKeeperURL(ttl time.Duration) func(addrs []string) string {
	return listURL("zookeeper://", fmt.Sprint("/?ttl=", ttl))
}

// zooKeepers are what the strikes on ZooKeepers work on.
type zooKeepers struct {
	nodes    []*servers.ZooKeeper
	ensemble *servers.Ensemble // nil: one that stands alone
}

func zooKeepersOf(p *faults.Phase) *zooKeepers { return p.World.Servers.(*zooKeepers) }

func (w *zooKeepers) mend(ctx context.Context) error {
	if w.ensemble != nil {
		w.ensemble.Heal()
	}
	if err := revive(ctx, w.nodes); err != nil {
		return err
	}
	return atOnce(w.nodes, func(node *servers.ZooKeeper) error { return zooKeeperServes(ctx, node) })
}

// members implements cluster.
func (w *zooKeepers) members() []member { return membersOf(w.nodes) }

func (w *zooKeepers) lead(ctx context.Context) (int, error) {
	leader, err := w.ensemble.Leader(ctx)
	return slices.Index(w.nodes, leader), err
}

// follow is the follower to whom most workers are connected.
func (w *zooKeepers) follow(ctx context.Context, p *faults.Phase) (int, error) {
	leader, err := w.lead(ctx)
	most, conns := (leader+1)%len(w.nodes), -1
	for i := range w.nodes {
		n := 0
		for _, worker := range p.Workers() {
			n += worker.Seat.Links[i].Conns()
		}
		if i != leader && n > conns {
			most, conns = i, n
		}
	}
	return most, err
}

// CutFromQuorum implements cluster.
func (w *zooKeepers) CutFromQuorum(i int) { w.ensemble.CutFromQuorum(i) }

// Heal implements cluster.
func (w *zooKeepers) Heal() { w.ensemble.Heal() }
