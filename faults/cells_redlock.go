package faults

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// votes is how many votes of five nodes grant a lock.
const votes = 3

// delayed is for how many TTLs a crashed node without its data must stay down, until all its votes have expired. Redis calls it a delayed restart.
const delayed = 1.05

// redlockCells are the faults of five nodes that vote and keep no data. No token tells two holders apart.
var redlockCells = slices.Concat(Common(false), []play.Cell{
	{Fault: "minority-hung", Outcome: report.Safe, Script: play.Storm(contested(lasting(someNodes(2).frozen, 0.5, 1.6))),
		Why: "three of five votes make a lock; the client waits for a hung node only if the others have not decided"},
	{Fault: "minority-killed", Outcome: report.Safe, Script: play.Storm(contested(lasting(someNodes(2).killed, delayed, 1.5))),
		Why: "three of five votes make a lock; an empty node that returns later than the TTL cannot vote twice"},
	{Fault: "majority-hung", Outcome: report.Unavailable, Script: play.Storm(contested(unavailable(someNodes(votes).frozen, 0.25, 0.8, 1.3))),
		Why: "two votes make no lock; late votes are released"},
	{Fault: "majority-killed", Outcome: report.Unavailable, Script: play.Storm(contested(unavailable(someNodes(votes).killed, 0.25, delayed, 1.5))),
		Why: "two votes make no lock; the nodes return later than the TTL"},
	{Fault: "clock-set-back", Outcome: report.Safe, Script: play.Storm(everyNode.clocksBack),
		Why: "votes for a dead holder last longer by the size of the jump"},
	{Fault: "node-restarted-empty", Outcome: report.Unsafe, Script: bareMajority(nodes.wiped), Tries: overtakenTries,
		Why: "the holder has three of five votes; one node that restarts empty within the TTL votes again, and one is enough"},
	{Fault: "majority-restarted-empty", Outcome: report.Unsafe, Script: allVoted(someNodes(votes).wiped), Tries: overtakenTries,
		Why: "a majority that restarts empty within the TTL votes again; the holder notices at its next renewal"},
	{Fault: "clock-of-a-node-set-forward", Outcome: report.Unsafe, Script: bareMajority(nodes.clocksForward), Tries: overtakenTries,
		Why: "the holder has three of five votes; one node expires its vote early, and one is enough"},
	{Fault: "clocks-of-a-majority-set-forward", Outcome: report.Unsafe, Script: allVoted(someNodes(votes).clocksForward), Tries: overtakenTries,
		Why: "a majority expires its votes early and votes again; the holder notices at its next renewal"},
	{Fault: "lock-deleted", Outcome: report.Unsafe, Script: play.InOrder(allVoted(Remove), removedOpenly(Remove, false)), Tries: overtakenTries,
		Why: "an operator's DEL on the nodes frees the lock at once; the holder notices at its next renewal"},
})

// bareMajority has a worker that cannot reach two nodes acquire the lock with the votes of the other three. One of the three forgets its vote, and
// another worker acquires the lock with the votes of that node and of the first two.
func bareMajority(forget func(n nodes, s *play.Phase)) play.Act {
	return func(s *play.Phase) {
		order := someNodes(len(s.Environment.Nodes()))(s)
		overtaken(func(s *play.Phase) {
			haveVoted(s, order[:votes])
			forget(func(*play.Phase) []*servers.Server { return order[:1] }, s)
		}, func(s *play.Phase) {
			for _, missing := range order[votes:] {
				s.Workers()[0].Endpoint.Links[slices.Index(s.Environment.Nodes(), missing)].Cut()
			}
		})(s)
	}
}

// allVoted is overtaken with damage that waits until all nodes have voted for the older holder. A majority grants the lock, so other votes may come
// later. A vote that comes after its node was damaged is not forgotten, and may leave the holder a majority.
func allVoted(damage play.Act) play.Act {
	return overtaken(func(s *play.Phase) {
		haveVoted(s, everyNode(s))
		damage(s)
	})
}

// haveVoted waits until nodes have the lock. The client may count the last vote of a majority before its node answers another request.
func haveVoted(s *play.Phase, nodes []*servers.Server) {
	for _, n := range in[*environment.Redis](s).Members {
		if !slices.Contains(nodes, n.Server) {
			continue
		}
		play.Check(servers.Poll(s.Ctx, func(ctx context.Context) error {
			there, err := n.Do(ctx, "KEYS", "*"+s.Name+"*") // of lockport, or of another lock
			if keys, _ := there.([]any); err == nil && len(keys) == 0 {
				err = fmt.Errorf("%s has not voted", n.Addr())
			}
			return err
		}))
	}
}
