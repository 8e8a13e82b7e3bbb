package faults

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

// votes is how many votes of five make a lock.
const votes = 3

// delayed is for how many TTLs a node that has died without keeping its data must be away (Redis calls it a delayed restart): until all that it voted for
// has expired.
const delayed = 1.05

// redlockCells are the faults of five nodes that vote, and keep nothing. No token tells two holders apart.
var redlockCells = slices.Concat(Common(false), cells(
	row{"minority-hung", play.Safe, storm(contested(lasting(someNodes(2).frozen, 0.5, 1.6)), isBack),
		"three of five votes make a lock; a node that hangs is waited for only where the others have not decided"},
	row{"minority-killed", play.Safe, storm(contested(lasting(someNodes(2).killed, delayed, 1.5)), isBack),
		"three of five votes make a lock; a node that comes back empty, later than the TTL, has no vote left that it could give twice"},
	row{"majority-hung", play.Unavailable, storm(contested(unavailable(someNodes(votes).frozen, 0.25, 0.8, 1.3)), isBack),
		"two votes make no lock; votes that arrive when the nodes go on are given back"},
	row{"majority-killed", play.Unavailable, storm(contested(unavailable(someNodes(votes).killed, 0.25, delayed, 1.5)), isBack),
		"two votes make no lock; the nodes come back later than the TTL"},
	row{"clock-set-back", play.Safe, storm(everyNode.clocksBack(0), afterClocks),
		"votes for a dead holder last longer by as much as the clocks were set back"},
	row{"node-restarted-empty", play.Unsafe, script(bareMajority(nodes.wiped), tries(overtakenTries)),
		"a holder with three votes of five, one of which is given again by a node that came back at once without its data: one node is enough"},
	row{"majority-restarted-empty", play.Unsafe, script(allVoted(someNodes(votes).wiped), tries(overtakenTries)),
		"a majority that came back at once without its data votes again; the holder learns it at its next renewal"},
	row{"clock-of-a-node-set-forward", play.Unsafe, script(bareMajority(nodes.clocksForward), tries(overtakenTries)),
		"a holder with three votes of five, one of which a node ends early: one node is enough"},
	row{"clocks-of-a-majority-set-forward", play.Unsafe, script(allVoted(someNodes(votes).clocksForward), tries(overtakenTries)),
		"a majority ends its votes early and votes again; the holder learns it at its next renewal"},
	row{"lock-deleted", play.Unsafe, script(play.InOrder(allVoted(play.InOrder(removed, remove)), removedOpenly(remove, false)), tries(overtakenTries)),
		"an operator's DEL on the nodes frees the lock at once; the holder learns it at its next renewal"},
))

// bareMajority has a worker that cannot reach two nodes acquire the lock with the votes of the others, has one of those forget its vote, and another worker
// acquire the lock with that one's and those of the two.
func bareMajority(forget func(n nodes, s *play.Phase)) play.Act {
	return func(s *play.Phase) {
		older, newer := s.Two()
		order := someNodes(len(s.Environment.Nodes()))(s)
		for _, missing := range order[votes:] {
			older.Endpoint.Links[slices.Index(s.Environment.Nodes(), missing)].Cut()
		}
		overtakes(s, older, newer, func(s *play.Phase) {
			haveVoted(s, order[:votes])
			forget(func(*play.Phase) []environment.Node { return order[:1] }, s)
		})
	}
}

// allVoted is overtaken with a damage that comes after all nodes have voted for the older holder. A majority makes the lock, so the votes of the others may come
// later; one that came after the damage to its node would be none that was forgotten, and with it the holder may have a majority still.
func allVoted(damage play.Act) play.Act {
	return overtaken(func(s *play.Phase) {
		haveVoted(s, everyNode(s))
		damage(s)
	})
}

// haveVoted waits until nodes have the lock: the last vote of a majority may be counted before the node's answer to another question.
func haveVoted(s *play.Phase, nodes []environment.Node) {
	for _, n := range nodes {
		s.Eventually(func(ctx context.Context) error {
			there, err := n.(*servers.Redis).Do(ctx, "KEYS", "*"+s.Name()+"*") // of lockport, or of another lock
			if keys, _ := there.([]any); err == nil && len(keys) == 0 {
				err = fmt.Errorf("%s has not voted", n.Addr())
			}
			return err
		})
	}
}
