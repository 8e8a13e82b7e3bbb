package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

// redlockMajority is how many votes make a lock.
const redlockMajority = 3

func redlockIn(p *play.Phase) *environment.Redlock {
	return p.Environment.Servers.(*environment.Redlock)
}

// someNodes are n nodes at random.
func someNodes(p *play.Phase, n int) []*servers.Redis {
	var chosen []*servers.Redis
	for _, i := range p.Rand.Perm(len(redlockIn(p).All()))[:n] {
		chosen = append(chosen, redlockIn(p).All()[i])
	}
	return chosen
}

// redlockDelay is for how many TTLs a node that has died without keeping its data must be away (Redis calls it a delayed restart): until all
// that it voted for has expired.
const redlockDelay = 1.05

// redlockCells are nodes that are away, and forget nothing that counts.
var redlockCells = []play.Cell{
	{
		Fault:    "minority-hung",
		Inject:   contested(awayNodes(lasting, hang, 2, 0.5, 1.6)),
		Why:      "three of five votes make a lock; a node that hangs is waited for only where the others have not decided",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "minority-killed",
		Inject:   contested(awayNodes(lasting, kill, 2, redlockDelay, 1.5)),
		Why:      "three of five votes make a lock; a node that comes back empty, later than the TTL, has no vote left that it could give twice",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "majority-hung",
		Outcome:  play.Unavailable,
		Inject:   contested(awayNodes(unavailable, hang, redlockMajority, 0.8, 1.3)),
		Why:      "two votes make no lock; votes that arrive when the nodes go on are given back",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "majority-killed",
		Outcome:  play.Unavailable,
		Inject:   contested(awayNodes(unavailable, kill, redlockMajority, redlockDelay, 1.5)),
		Why:      "two votes make no lock; the nodes come back later than the TTL",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "clock-set-back",
		Inject:   clocksBack(func(p *play.Phase) []*servers.Redis { return redlockIn(p).All() }, 0),
		Why:      "votes for a dead holder last longer by as much as the clocks were set back",
		Recovery: 2*redisTTL + time.Second,
	},
}

func hang(n *servers.Redis) error { return n.Freeze() }

func kill(n *servers.Redis) error { return n.Kill() }

// awayNodes breaks so many nodes, chosen at random, for between least and most TTLs, as how has it. Then they run again, all at the same time.
func awayNodes(how func(step, float64, float64, step) step, hurt func(*servers.Redis) error, count int, least, most float64) step {
	return func(ctx context.Context, p *play.Phase) error {
		nodes := someNodes(p, count)
		return how(
			func(context.Context, *play.Phase) error { return environment.AtOnce(nodes, hurt) }, least, most,
			func(ctx context.Context, _ *play.Phase) error { return environment.Revive(ctx, nodes...) })(ctx, p)
	}
}

// redlockForgetfulCells are nodes that vote twice. No token tells the two holders apart.
var redlockForgetfulCells = []play.Cell{
	{
		Fault:   "node-restarted-empty",
		Outcome: play.Unsafe,
		Script:  redlockBareMajority(restartEmpty),
		Tries:   redisTries,
		Why:     "a holder with three votes of five, one of which is given again by a node that came back at once without its data: one node is enough",
	}, {
		Fault:   "majority-restarted-empty",
		Outcome: play.Unsafe,
		Script: allVoted(func(ctx context.Context, p *play.Phase) error {
			return environment.AtOnce(someNodes(p, redlockMajority), func(n *servers.Redis) error { return restartEmpty(ctx, p, n) })
		}),
		Tries: redisTries,
		Why:   "a majority that came back at once without its data votes again; the holder learns it at its next renewal",
	}, {
		Fault:   "clock-of-a-node-set-forward",
		Outcome: play.Unsafe,
		Script:  redlockBareMajority(clockForward),
		Tries:   redisTries,
		Why:     "a holder with three votes of five, one of which a node ends early: one node is enough",
	}, {
		Fault:   "clocks-of-a-majority-set-forward",
		Outcome: play.Unsafe,
		Script: allVoted(func(ctx context.Context, p *play.Phase) error {
			for _, n := range someNodes(p, redlockMajority) {
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
		Outcome: play.Unsafe,
		Script: inOrder(
			allVoted(func(ctx context.Context, p *play.Phase) error {
				return p.Remove(ctx, p.Name())
			}),
			removedOpenly(remove)),
		Tries: redisTries,
		Why:   "an operator's DEL on the nodes frees the lock at once; the holder learns it at its next renewal",
	},
}

// restartEmpty has a node end and come back at once, without data.
func restartEmpty(ctx context.Context, _ *play.Phase, n *servers.Redis) error {
	if err := n.Kill(); err != nil {
		return err
	}
	return n.Restart(ctx)
}

func clockForward(_ context.Context, p *play.Phase, n *servers.Redis) error {
	return jumpClock(n, p.Between(p.Environment.TTL, 2*p.Environment.TTL))
}

// redlockBareMajority has a worker that cannot reach two nodes acquire the lock with the votes of the others, has one of those forget its
// vote, and another worker acquire the lock with that one's and those of the two.
func redlockBareMajority(forget func(ctx context.Context, p *play.Phase, n *servers.Redis) error) step {
	return func(ctx context.Context, p *play.Phase) (err error) {
		c := &couple{}
		if c.older, c.newer, err = p.Two(ctx); err != nil {
			return err
		}
		order := p.Rand.Perm(len(c.older.Endpoint.Links))
		for _, i := range order[redlockMajority:] {
			c.older.Endpoint.Links[i].Cut()
		}
		return c.play(ctx, p, func(ctx context.Context, p *play.Phase, _ *couple) error {
			var voters []*servers.Redis
			for _, i := range order[:redlockMajority] {
				voters = append(voters, redlockIn(p).All()[i])
			}
			if err := haveVoted(ctx, p, voters); err != nil {
				return err
			}
			return forget(ctx, p, redlockIn(p).All()[order[0]])
		})
	}
}

// allVoted is overtaken with a damage that comes after all nodes have voted for the older holder. A majority makes the lock, so the votes of the others may come
// later; one that came after the damage to its node would be none that was forgotten, and with it the holder may have a majority still.
func allVoted(damage step) step {
	return overtaken(func(ctx context.Context, p *play.Phase, _ *couple) error {
		if err := haveVoted(ctx, p, redlockIn(p).All()); err != nil {
			return err
		}
		return damage(ctx, p)
	})
}

// haveVoted waits until nodes have the lock: the last vote of a majority may be counted before the node's answer to another question.
func haveVoted(ctx context.Context, p *play.Phase, nodes []*servers.Redis) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, n := range nodes {
		err := environment.Eventually(ctx, func(ctx context.Context) error {
			there, err := n.Do(ctx, "EXISTS", environment.RedisKey(p.Name()))
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
