package faults

import (
	"fmt"
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

var postgresCells = slices.Concat(Common(false, closedBothWays...), sessionCells("session-terminated"), []play.Cell{
	{Fault: "too-many-connections", Outcome: report.Safe, Script: play.Storm(usedUp("pgx", func(p *environment.Postgres) string { return p.Server.URL() })), Why: whyTooMany},
})

var (
	pooler       = granting // clients connect to it
	pooled nodes = func(s *play.Phase) []*servers.Server { return s.Environment.Nodes()[1:] }
)

// postgresPoolerCells are the faults of a PostgreSQL behind PgBouncer, and of the PgBouncer.
var postgresPoolerCells = slices.Concat(Common(false, closedBothWays...), []play.Cell{
	{Fault: "server-killed", Outcome: report.Unavailable, Script: play.Storm(unavailable(pooled.killed, 0.25, 0.1, 0.5)), Why: whyKilled},
	{Fault: "pooler-killed", Outcome: report.Unavailable, Script: play.Storm(unavailable(pooler.killed, 0.25, 0.1, 0.5)),
		Why: "both sides see their connections close: the server frees the locks, holders notice within milliseconds, and the pooler stays down for at least 500 ms"},
	{Fault: "pooler-restarted-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence(pooler.restart), Gone: true, Tries: 10,
		Why: "the server frees the locks when the pooler's connections close; a holder with a silent link trusts its lock until its deadline"},
	{Fault: "pooler-paused", Outcome: report.Unavailable, Script: play.Storm(unavailable(pooler.frozen, 1, 0.1, 1)),
		Why: "holders get no answer and end their holds before the server ends their sessions"},
})

var postgresFailoverCells = []play.Cell{
	{Fault: "failover", Outcome: report.Safe, Script: play.Storm(failOver),
		Why: "the replica knows no locks, but a killed primary's system closes its connections, so holders notice within milliseconds"},
	{Fault: "failover-behind-silence", Outcome: report.Fenced, Script: endedBehindSilence((*play.Phase).FailOver), Gone: true, Tries: 10,
		Why: "the replica grants held locks at once; if the primary's machine or network is lost, nobody tells its holders before their deadline"},
	{Fault: "split-brain", Outcome: report.Fenced, Script: splitBrain, Gone: true,
		Why: "the replica does not know the locks of the old primary, which keeps running; promotion advances the token sequence, so new tokens are greater"},
	{Fault: "split-brain-and-crash", Outcome: report.Unsafe, Script: splitBrainAndCrash,
		Why: "the old primary keeps running; its crash advances its sequence just as far, so both give the same tokens"},
}

// failOver kills the primary, promotes the replica, and directs all workers there, as a service address that moves does.
func failOver(s *play.Phase) {
	pair := in[*environment.PostgresPair](s)
	s.Injected()
	play.Check(pair.Primary.Kill())
	s.Pause(0.25, 0.5)
	play.Check(pair.Promote(s.Ctx))
	s.Retarget()
	s.Healed()
}

// splitBrain promotes a lagging replica while the primary and a holder on it keep running.
func splitBrain(s *play.Phase) {
	stays := s.Worker()
	s.Acquire(stays).Release()
	play.Check(in[*environment.PostgresPair](s).Part(s.Ctx))
	older := s.Acquire(stays)
	newer := holdElsewhere(s)
	if newer.Token <= older.Token {
		play.Check(fmt.Errorf("promotion did not advance the tokens: %d came after %d", newer.Token, older.Token))
	}
	s.Both(older, newer)
}

// splitBrainAndCrash also crashes and restarts the old primary.
func splitBrainAndCrash(s *play.Phase) {
	pair, stays := in[*environment.PostgresPair](s), s.Worker()
	s.Acquire(stays)
	play.Check(pair.CatchUp(s.Ctx))
	older := holdElsewhere(s)
	old := pair.Replica
	s.Note("the old primary crashes and restarts")
	play.Check(old.Kill())
	play.Check(old.Restart(s.Ctx))
	newer := s.Acquire(stays)
	if newer.Token > older.Token {
		play.Check(fmt.Errorf("tokens tell the holders apart: %d came after %d", newer.Token, older.Token))
	}
	s.Both(older, newer)
}

// holdElsewhere promotes the replica, and has a worker acquire the lock there.
func holdElsewhere(s *play.Phase) *play.Hold {
	s.Injected()
	s.Note("the replica is promoted, and the old primary keeps running")
	play.Check(in[*environment.PostgresPair](s).Promote(s.Ctx))
	return s.Acquire(s.Worker())
}
