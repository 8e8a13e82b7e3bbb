package worlds

import (
	"context"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// redlockDelay is for how many TTLs a node that has died without keeping its data must be away (Redis calls it a delayed restart): until all
// that it voted for has expired.
const redlockDelay = 1.05

// redlockCells are nodes that are away, and forget nothing that counts.
var redlockCells = []faults.Cell{
	{
		Fault:    "minority-hung",
		Strike:   contested(awayNodes(lasting, hang, 2, 0.5, 1.6)),
		Why:      "three of five votes make a lock; a node that hangs is waited for only where the others have not decided",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "minority-killed",
		Strike:   contested(awayNodes(lasting, kill, 2, redlockDelay, 1.5)),
		Why:      "three of five votes make a lock; a node that comes back empty, later than the TTL, has no vote left that it could give twice",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "majority-hung",
		Outcome:  faults.Unavailable,
		Strike:   contested(awayNodes(unavailable, hang, redlockMajority, 0.8, 1.3)),
		Why:      "two votes make no lock; votes that arrive when the nodes go on are given back",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "majority-killed",
		Outcome:  faults.Unavailable,
		Strike:   contested(awayNodes(unavailable, kill, redlockMajority, redlockDelay, 1.5)),
		Why:      "two votes make no lock; the nodes come back later than the TTL",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "clock-set-back",
		Strike:   clocksBack(func(p *faults.Phase) []*servers.Redis { return redlockOf(p).nodes }, 0),
		Why:      "votes for a dead holder last longer by as much as the clocks were set back",
		Recovery: 2*redisTTL + time.Second,
	},
}

func hang(n *servers.Redis) error { return n.Freeze() }

func kill(n *servers.Redis) error { return n.Kill() }

// awayNodes breaks so many nodes, chosen at random, for between least and most TTLs, as how has it. Then they run again, all at the same time.
func awayNodes(how func(step, float64, float64, step) step, hurt func(*servers.Redis) error, count int, least, most float64) step {
	return func(ctx context.Context, p *faults.Phase) error {
		nodes := redlockOf(p).some(p, count)
		return how(
			func(context.Context, *faults.Phase) error { return atOnce(nodes, hurt) }, least, most,
			func(ctx context.Context, _ *faults.Phase) error { return revive(ctx, nodes) })(ctx, p)
	}
}
