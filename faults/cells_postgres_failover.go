package faults

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// postgresFailoverCells are the faults of a PostgreSQL whose replica is promoted.
var postgresFailoverCells = []play.Cell{
	{
		Fault: "failover", Outcome: play.Safe, Inject: failOver,
		Why: "the replica knows nothing of locks, but the system of a primary that is killed closes its connections, by which holders know in milliseconds: " +
			"if its machine or its network is lost instead, nobody tells them",
	},
	{
		Fault: "failover-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(failOverUnheard), Tries: 10,
		Why: "the replica grants at once what was held; a holder whom nobody tells of the primary's end, since its machine or the network is lost, believes until its " +
			"deadline; the token protects",
	},
	{
		Fault: "split-brain", Outcome: play.UnsafeFenced, Gone: true, Script: splitBrain,
		Why: "the replica knows nothing of the locks of the primary, which lives on with its clients; its promotion moves the sequence of tokens on, so that the next are greater",
	},
	{
		Fault: "split-brain-and-crash", Outcome: play.Unsafe, Script: splitBrainAndCrash,
		Why: "a crash of the old primary, which lives on with its clients, moves its own sequence on just as far, so that the tokens of both are the same",
	},
}

func postgresPairIn(p *play.Phase) *environment.PostgresPair {
	return p.Environment.Servers.(*environment.PostgresPair)
}

// failOverUnheard is failOver as fast as it can be, for a holder that hears nothing of it.
func failOverUnheard(ctx context.Context, p *play.Phase, _ string) error { return p.FailOver(ctx) }

// failOver kills the primary, promotes the replica, and leads everybody there, as a service's address that moves does.
func failOver(ctx context.Context, p *play.Phase) error {
	primary, _ := postgresPairIn(p).Both()
	p.Injected()
	if err := primary.Kill(); err != nil {
		return err
	}
	if err := p.Sleep(ctx, underWay+p.Between(0, p.Environment.TTL/4)); err != nil {
		return err
	}
	if err := errors.Join(postgresPairIn(p).Promote(ctx), p.Retarget()); err != nil {
		return err
	}
	p.Healed()
	return nil
}

// splitBrain promotes a replica that lags, while the primary lives on, and a holder with it.
func splitBrain(ctx context.Context, p *play.Phase) error {
	stays, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	first, err := stays.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
	if err != nil {
		return err
	}
	if err := errors.Join(first.Release(ctx), postgresPairIn(p).Part(ctx)); err != nil {
		return err
	}
	older, err := stays.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
	if err != nil {
		return err
	}
	newer, err := holdElsewhere(ctx, p)
	if err != nil {
		return err
	}
	if newer.Token <= older.Token {
		return fmt.Errorf("the promotion has not moved tokens on: %d came after %d", newer.Token, older.Token)
	}
	return p.Both(ctx, older, newer)
}

// splitBrainAndCrash has the primary that lives on crash, too, and start again.
func splitBrainAndCrash(ctx context.Context, p *play.Phase) error {
	s := postgresPairIn(p)
	stays, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	if _, err := stays.Acquire(ctx, p.Name(), 5*p.Environment.TTL); err != nil {
		return err
	}
	if err := s.CatchUp(ctx); err != nil {
		return err
	}
	older, err := holdElsewhere(ctx, p)
	if err != nil {
		return err
	}
	_, old := s.Both()
	p.Note("the old primary crashes, and starts again")
	if err := old.Kill(); err != nil {
		return err
	}
	if err := old.Restart(ctx); err != nil {
		return err
	}
	newer, err := stays.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
	if err != nil {
		return err
	}
	if newer.Token > older.Token {
		return fmt.Errorf("tokens tell the holders apart: %d came after %d", newer.Token, older.Token)
	}
	return p.Both(ctx, older, newer)
}

// holdElsewhere promotes the replica, and has a worker that is led there hold the lock.
func holdElsewhere(ctx context.Context, p *play.Phase) (*play.Hold, error) {
	p.Injected()
	p.Note("the replica is promoted, and the old primary lives on")
	if err := postgresPairIn(p).Promote(ctx); err != nil {
		return nil, err
	}
	moves, err := p.Worker(ctx)
	if err != nil {
		return nil, err
	}
	return moves.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
}
