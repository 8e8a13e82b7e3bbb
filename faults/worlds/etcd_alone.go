package worlds

import (
	"context"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// EtcdAlone is a single etcd, which is there to lose its disk.
var EtcdAlone = faults.Arrangement{
	Name:          "etcd-alone",
	Title:         "one etcd",
	Backend:       "etcd",
	TTL:           patientTTL,
	Margin:        marginOf(patientTTL),
	Tokens:        true,
	RemovalNotice: 250 * time.Millisecond,
	Needs:         []string{"etcd"},
	Start: func(ctx context.Context) (*faults.World, error) {
		e, err := servers.StartEtcd(ctx, servers.EtcdOptions{Tick: etcdTick})
		if err != nil {
			return nil, err
		}
		w := &etcds{nodes: []*servers.Etcd{e}}
		return &faults.World{
			Servers: w,
			Seat:    func() (*faults.Seat, error) { return seat([]string{e.Addr()}, listURL("etcd://", "")) },
			Mend:    w.mend,
			Close:   e.Close,
			Log:     e.Log,
		}, nil
	},
	Cells: forgets("revision"),
}

// grants is the member that stands alone.
func (w *etcds) grants() process { return w.nodes[0] }
