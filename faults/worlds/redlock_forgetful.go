package worlds

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// redlockForgetfulCells are nodes that vote twice. No token tells the two holders apart.
var redlockForgetfulCells = []faults.Cell{
	{
		Fault:   "node-restarted-empty",
		Outcome: faults.Unsafe,
		Script:  redlockBareMajority(restartEmpty),
		Tries:   redisTries,
		Why:     "a holder with three votes of five, one of which is given again by a node that came back at once without its data: one node is enough",
	}, {
		Fault:   "majority-restarted-empty",
		Outcome: faults.Unsafe,
		Script: allVoted(func(ctx context.Context, p *faults.Phase) error {
			return atOnce(redlockOf(p).some(p, redlockMajority), func(n *servers.Redis) error { return restartEmpty(ctx, p, n) })
		}),
		Tries: redisTries,
		Why:   "a majority that came back at once without its data votes again; the holder learns it at its next renewal",
	}, {
		Fault:   "clock-of-a-node-set-forward",
		Outcome: faults.Unsafe,
		Script:  redlockBareMajority(clockForward),
		Tries:   redisTries,
		Why:     "a holder with three votes of five, one of which a node ends early: one node is enough",
	}, {
		Fault:   "clocks-of-a-majority-set-forward",
		Outcome: faults.Unsafe,
		Script: allVoted(func(ctx context.Context, p *faults.Phase) error {
			for _, n := range redlockOf(p).some(p, redlockMajority) {
				if err := clockForward(ctx, p, n); err != nil {
					return err
				}
			}
			return nil
		}),
		Tries: redisTries,
		Why:   "a majority ends its votes early and votes again; the holder learns it at its next renewal",
	}, {
		Fault:   "lock-deleted",
		Outcome: faults.Unsafe,
		Script: then(
			allVoted(func(ctx context.Context, p *faults.Phase) error {
				removed(p)
				return redlockDeletes(ctx, p, p.Name())
			}),
			removedOpenly(redlockDeletes)),
		Tries: redisTries,
		Why:   "an operator's DEL on the nodes frees the lock at once; the holder learns it at its next renewal",
	},
}

func redlockDeletes(ctx context.Context, p *faults.Phase, name string) error {
	return atOnce(redlockOf(p).nodes, func(n *servers.Redis) error {
		_, err := n.Do(ctx, "DEL", redisKey(name))
		return err
	})
}

// restartEmpty has a node end and come back at once, without data.
func restartEmpty(ctx context.Context, _ *faults.Phase, n *servers.Redis) error {
	if err := n.Kill(); err != nil {
		return err
	}
	return n.Restart(ctx)
}

func clockForward(_ context.Context, p *faults.Phase, n *servers.Redis) error {
	return jumpClock(n, p.Between(p.World.TTL, 2*p.World.TTL))
}

// redlockBareMajority has a worker that cannot reach two nodes acquire the lock with the votes of the others, has one of those forget its
// vote, and another worker acquire the lock with that one's and those of the two.
func redlockBareMajority(forget func(ctx context.Context, p *faults.Phase, n *servers.Redis) error) step {
	return func(ctx context.Context, p *faults.Phase) (err error) {
		c := &couple{}
		if c.older, c.newer, err = p.Two(ctx); err != nil {
			return err
		}
		order := p.Rand.Perm(len(c.older.Seat.Links))
		for _, i := range order[redlockMajority:] {
			c.older.Seat.Links[i].Cut()
		}
		return c.play(ctx, p, func(ctx context.Context, p *faults.Phase, _ *couple) error {
			var voters []*servers.Redis
			for _, i := range order[:redlockMajority] {
				voters = append(voters, redlockOf(p).nodes[i])
			}
			if err := haveVoted(ctx, p, voters); err != nil {
				return err
			}
			return forget(ctx, p, redlockOf(p).nodes[order[0]])
		})
	}
}

// allVoted is overtaken with a damage that comes after all nodes have voted for the older holder. A majority makes the lock, so the votes of the others may come
// later; one that came after the damage to its node would be none that was forgotten, and with it the holder may have a majority still.
func allVoted(damage step) step {
	return overtaken(func(ctx context.Context, p *faults.Phase, _ *couple) error {
		if err := haveVoted(ctx, p, redlockOf(p).nodes); err != nil {
			return err
		}
		return damage(ctx, p)
	})
}

// haveVoted waits until nodes have the lock: the last vote of a majority may be counted before the node's answer to another question.
func haveVoted(ctx context.Context, p *faults.Phase, nodes []*servers.Redis) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, n := range nodes {
		err := eventually(ctx, func(ctx context.Context) error {
			there, err := n.Do(ctx, "EXISTS", redisKey(p.Name()))
			if err == nil && there != int64(1) {
				err = fmt.Errorf("%s has not voted", n.Addr())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
