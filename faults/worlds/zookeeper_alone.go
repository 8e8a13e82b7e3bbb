package worlds

import (
	"context"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// ZooKeeperAlone is a single ZooKeeper, which is there to lose its disk.
var ZooKeeperAlone = faults.Arrangement{
	Name:          "zookeeper-alone",
	Title:         "one ZooKeeper",
	Backend:       "zookeeper",
	TTL:           patientTTL,
	Margin:        marginOf(patientTTL),
	Tokens:        true,
	RemovalNotice: 500 * time.Millisecond,
	Needs:         []string{"zookeeper"},
	Start: func(ctx context.Context) (*faults.World, error) {
		z, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{})
		if err != nil {
			return nil, err
		}
		w := &zooKeepers{nodes: []*servers.ZooKeeper{z}}
		return &faults.World{
			Servers: w,
			Seat:    func() (*faults.Seat, error) { return seat([]string{z.Addr()}, zooKeeperURL(patientTTL)) },
			Mend:    w.mend,
			Close:   z.Close,
			Log:     z.Log,
		}, nil
	},
	Cells: forgets("count of transactions"),
}

// grants is the node that stands alone.
func (w *zooKeepers) grants() process { return w.nodes[0] }
