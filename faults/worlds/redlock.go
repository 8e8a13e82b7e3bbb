package worlds

import (
	"context"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"

	_ "github.com/lockport/lockport/backend/redlock" // its URLs
)

// Redlock is five servers that know nothing of each other and keep nothing on disk.
var Redlock = faults.Arrangement{
	Name:          "redlock",
	Title:         "five Redis under Redlock, without persistence",
	Backend:       "redlock",
	TTL:           redisTTL,
	Margin:        marginOf(redisTTL) + redisTTL/100 + 2*time.Millisecond,
	RemovalNotice: redisNotice(redisTTL),
	Needs:         []string{"redis"},
	Start: func(ctx context.Context) (*faults.World, error) {
		w := &redlockNodes{}
		for range 5 {
			node, err := servers.StartRedis(ctx, servers.RedisOptions{Clock: servers.ClockInstalled() == nil})
			if err != nil {
				_ = w.close()
				return nil, err
			}
			w.nodes = append(w.nodes, node)
		}
		return &faults.World{
			Seat:    w.seat,
			Mend:    w.mend,
			Close:   w.close,
			Log:     w.log,
			Servers: w,
		}, nil
	},
	Cells: slices.Concat(faults.Common(false), redlockCells, redlockForgetfulCells),
}

// redlockNodes are the servers of a [Redlock].
type redlockNodes struct{ nodes []*servers.Redis }

// redlockMajority is how many votes make a lock.
const redlockMajority = 3

func redlockOf(p *faults.Phase) *redlockNodes { return p.World.Servers.(*redlockNodes) }

func (w *redlockNodes) seat() (*faults.Seat, error) {
	var addrs []string
	for _, n := range w.nodes {
		addrs = append(addrs, n.Addr())
	}
	return seat(addrs, listURL("redlock://", "/0"))
}

// mend has all nodes run. Their clocks stay as they are.
func (w *redlockNodes) mend(ctx context.Context) error { return revive(ctx, w.nodes) }

func (w *redlockNodes) close() error { return closeAll(w.nodes...) }

func (w *redlockNodes) log() string {
	var all string
	for _, n := range w.nodes {
		all += "--- " + n.Addr() + "\n" + n.Log()
	}
	return all
}

// some are n nodes at random.
func (w *redlockNodes) some(p *faults.Phase, n int) []*servers.Redis {
	var chosen []*servers.Redis
	for _, i := range p.Rand.Perm(len(w.nodes))[:n] {
		chosen = append(chosen, w.nodes[i])
	}
	return chosen
}
