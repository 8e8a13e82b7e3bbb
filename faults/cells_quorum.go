package faults

import (
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Faults of members that are the same in etcd and in ZooKeeper.
var (
	leaderKilled   = lasting(leader.killed, 0.5, 1.5)
	followerKilled = lasting(follower.killed, 0.5, 1.5)
	leaderCut      = lasting(leader.cut, 0.25, 1.5)
	followerCut    = lasting(follower.cut, 0.25, 1.5)
	majorityKilled = unavailable(someNodes(2).killed, 0.25, 0.1, 1)
	allKilled      = unavailable(everyNode.killed, 0.25, 0.1, 1)
)

// whyWatched is the reason where the holder watches the claim that is removed.
const whyWatched = "The holder's watch reports it within milliseconds, but the next waiter may be granted first."

// etcdCells are the faults of a cluster. pausedTries is within how many plays a paused leader revokes a lease.
func etcdCells(pausedTries int) []play.Cell {
	revoked := named((*environment.Etcd).RevokeLease)
	return slices.Concat(Common(false), []play.Cell{
		{Fault: "leader-killed", Outcome: report.Safe, Script: play.Storm(leaderKilled),
			Why: "Keys and leases are on a majority; the next leader restarts every lease's TTL."},
		{Fault: "follower-killed", Outcome: report.Safe, Script: play.Storm(followerKilled),
			Why: "The others are a majority, and clients connect to them."},
		{Fault: "leader-paused-briefly", Outcome: report.Safe, Script: play.Storm(lasting(leader.frozen, 0.1, 0.5)),
			Why: "A leader that resumes within half of the TTL revokes no lease that was kept alive."},
		{Fault: "leader-paused", Outcome: report.Fenced, Script: etcdLeaderPaused, Tries: pausedTries,
			Why: "A leader that resumes after more than the TTL may revoke leases that the next leader kept alive. Holders may notice only after the next grant."},
		{Fault: "leader-cut", Outcome: report.Safe, Script: play.Storm(leaderCut),
			Why: "Without a majority it ends no lease; the next leader restarts every lease's TTL."},
		{Fault: "follower-cut", Outcome: report.Safe, Script: play.Storm(followerCut),
			Why: "Alone it confirms nothing; its clients ask another member."},
		{Fault: "majority-killed", Outcome: report.Unavailable, Script: play.Storm(majorityKilled),
			Why: "One member alone grants nothing. With a majority again, every lease's TTL restarts."},
		{Fault: "cluster-restarted", Outcome: report.Unavailable, Script: play.Storm(allKilled),
			Why: "Keys and leases are on disk; the new leader restarts every lease's TTL."},
		// An operator removes claims behind a silent link, and on a healthy network.
		{Fault: "lease-revoked-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(revoked), Gone: true, Tries: overtakenTries,
			Why: "Revoking a lease deletes its keys at once; a holder with a silent link trusts its lock until its deadline."},
		{Fault: "lease-revoked", Outcome: report.Fenced, Script: removedOpenly(revoked, false), Gone: true, Argued: true, Why: whyWatched},
		{Fault: "key-deleted-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(Remove), Gone: true, Tries: overtakenTries,
			Why: "The next waiter is granted at once; a holder with a silent link trusts its lock until its deadline."},
		{Fault: "key-deleted", Outcome: report.Fenced, Script: removedOpenly(Remove, false), Gone: true, Argued: true, Why: whyWatched},
	})
}

const (
	// etcdRevokes is how many leases a leader revokes at a time. Others wait until one of these is revoked or given up.
	etcdRevokes = 16
	// etcdGivesUp is how long a member waits for a majority: 5 s and two election timeouts.
	etcdGivesUp = 5*time.Second + 2*10*environment.EtcdTick
)

// etcdLeaderPaused stops the leader for longer than the TTL, while a holder keeps its lease alive through the others. When the leader resumes, its
// connections to the others are gone. It takes all its leases for expired and begins to revoke the first few, which expired first. Then it learns of
// the new leader and follows it. When it gives up those few, it turns to the next leases on its list. So it asks the new leader to revoke the lease
// that was kept alive. The holder does not notice for a moment.
func etcdLeaderPaused(s *play.Phase) {
	e := in[*environment.Etcd](s)
	i := play.Must(e.Leader(s.Ctx))
	first, other := e.Members[i], e.Members[(i+1)%len(e.Members)]
	older, newer := s.Worker(), s.Worker()
	for _, w := range []*play.Worker{older, newer} {
		w.Endpoint.Links[i].Cut() // it uses the others
	}
	had := s.Acquire(older)
	grantLeases(s, other)
	s.Injected()
	e.CutFromQuorum(i)
	play.Check(first.Freeze())
	s.Pause(1.125, 1.25)
	play.Check(first.Thaw())
	const learns = 200 * time.Millisecond // by then it has looked for expired leases, but has not noticed that nobody answers
	s.Wait(learns)
	e.Join()
	s.Healed()
	s.Wait(etcdGivesUp - learns - s.TTL/8)
	older.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
	has, err := newer.Acquire(s.Name, s.TTL/2)
	if err != nil {
		s.Note("the lease was not revoked: %v", err) // the next play may show it
		return
	}
	s.Both(had, has)
}

// grantLeases makes leases of 1 s that nobody keeps alive.
func grantLeases(s *play.Phase, node *servers.Etcd) {
	play.Check(node.Use(s.Ctx, func(c *clientv3.Client) error {
		return environment.AtOnce(make([]struct{}, etcdRevokes), func(struct{}) error {
			_, err := c.Grant(s.Ctx, 1)
			return err
		})
	}))
}

var endSession = named((*environment.ZooKeeper).EndSession)

var zooKeeperCells = slices.Concat(Common(false), []play.Cell{
	{Fault: "leader-killed", Outcome: report.Safe, Script: play.Storm(leaderKilled),
		Why: "Nodes and sessions are on a quorum; the next leader restarts every session's timeout."},
	{Fault: "follower-killed", Outcome: report.Safe, Script: play.Storm(followerKilled),
		Why: "The others are a quorum; clients move their sessions to them."},
	{Fault: "leader-paused-briefly", Outcome: report.Safe, Script: play.Storm(lasting(leader.frozen, 0.1, 0.9)),
		Why: "A leader ends sessions only with a quorum, and the quorum follows this leader or another one."},
	{Fault: "leader-paused", Outcome: report.Safe, Script: play.Storm(lasting(leader.frozen, 1.25, 2)),
		Why: "When it resumes, it would expire sessions that the next leader kept alive, but it has no quorum."},
	{Fault: "follower-cut", Outcome: report.Safe, Script: play.Storm(followerCut),
		Why: "It answers pings for a while without its leader; validity counts only what a quorum confirmed."},
	{Fault: "leader-cut", Outcome: report.Safe, Script: play.Storm(leaderCut),
		Why: "It believes it leads for a while, but without a quorum it grants and confirms nothing."},
	{Fault: "majority-killed", Outcome: report.Unavailable, Script: play.Storm(majorityKilled),
		Why: "One node alone serves nobody. With a quorum again, every session's timeout restarts."},
	{Fault: "ensemble-restarted", Outcome: report.Unavailable, Script: play.Storm(allKilled),
		Why: "Nodes and sessions are on disk; the new leader restarts every session's timeout."},
	{Fault: "session-ended-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(endSession), Gone: true, Tries: overtakenTries,
		Why: "Ending a session deletes its nodes at once; a holder with a silent link trusts its lock until its deadline."},
	{Fault: "session-ended", Outcome: report.Fenced, Script: removedOpenly(endSession, false), Gone: true, Argued: true,
		Why: "The holder's server reports it within milliseconds, but the next waiter may be granted first."},
	{Fault: "node-deleted-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(Remove), Gone: true, Tries: overtakenTries,
		Why: "The next waiter has the lock once the node is gone; a holder with a silent link trusts its lock until its deadline."},
	{Fault: "node-deleted", Outcome: report.Fenced, Script: removedOpenly(Remove, false), Gone: true, Argued: true, Why: whyWatched},
})

// forgets is the only cell of environments with a single server that keeps its claims and its token counter on disk. With several servers, a majority
// would have to lose their disks.
func forgets(counter string) []play.Cell {
	return []play.Cell{{Fault: "server-restarted-empty", Outcome: report.Unsafe, Script: restartedEmpty, Tries: 3,
		Why: "A server without its data, or restored from a backup, grants held locks again. Its " + counter + " restarts, so tokens repeat: the resource must " +
			"forget the tokens it has seen."}}
}

// restartedEmpty has a worker acquire the lock repeatedly, keep it, and hear nothing more from the server. The server is killed, loses its data and
// restarts. Another worker acquires the lock with a token that is no greater.
func restartedEmpty(s *play.Phase) {
	older := s.Worker()
	const holds = 20 // more than a starting server counts on its own
	for range holds - 1 {
		s.Acquire(older).Release()
	}
	had := s.Acquire(older)
	older.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
	s.Injected()
	granting.wiped(s)
	s.Healed()
	has := s.Acquire(s.Worker()) // a ZooKeeper refuses clients that have seen later transactions, until they give up their session
	if has.Token > had.Token {
		play.Check(fmt.Errorf("after token %d came %d: the server has not forgotten everything", had.Token, has.Token))
	}
	s.Both(had, has)
}
