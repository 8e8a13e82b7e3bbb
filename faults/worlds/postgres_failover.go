package worlds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// PostgresFailover is a PostgreSQL that has a streaming replica, to take its place.
var PostgresFailover = faults.Arrangement{
	Name:          "postgres-failover",
	Title:         "a PostgreSQL with a replica, which is promoted",
	Backend:       "postgres",
	TTL:           sessionTTL,
	Margin:        marginOf(sessionTTL),
	Sessions:      true,
	Tokens:        true,
	RemovalNotice: 100 * time.Millisecond,
	Needs:         []string{"postgres"},
	Start:         startPostgresPair,
	Cells: []faults.Cell{
		{
			Fault: "failover", Outcome: faults.Safe, Strike: failOver,
			Why: "the replica knows nothing of locks, but the system of a primary that is killed closes its connections, by which holders know in milliseconds: " +
				"if its machine or its network is lost instead, nobody tells them",
		},
		{
			Fault: "failover-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(failOverUnheard), Tries: 10,
			Why: "the replica grants at once what was held; a holder whom nobody tells of the primary's end, since its machine or the network is lost, believes until its " +
				"deadline; the token protects",
		},
		{
			Fault: "split-brain", Outcome: faults.UnsafeFenced, Gone: true, Script: splitBrain,
			Why: "the replica knows nothing of the locks of the primary, which lives on with its clients; its promotion moves the sequence of tokens on, so that the next are greater",
		},
		{
			Fault: "split-brain-and-crash", Outcome: faults.Unsafe, Script: splitBrainAndCrash,
			Why: "a crash of the old primary, which lives on with its clients, moves its own sequence on just as far, so that the tokens of both are the same",
		},
	},
}

// postgresPair is what the strikes on it work on.
type postgresPair struct {
	mu               sync.Mutex
	primary, replica *servers.Postgres // where clients are led; the other one
	parted           bool              // the replica does not follow the primary
}

func startPostgresPair(ctx context.Context) (*faults.World, error) {
	settings := map[string]string{"wal_retrieve_retry_interval": "100ms"}
	primary, err := servers.StartPostgres(ctx, servers.PostgresOptions{Settings: settings})
	if err != nil {
		return nil, err
	}
	replica, err := servers.StartPostgres(ctx, servers.PostgresOptions{Primary: primary})
	if err != nil {
		return nil, errors.Join(err, primary.Close())
	}
	s := &postgresPair{primary: primary, replica: replica}
	return &faults.World{
		Servers: s,
		Seat: func() (*faults.Seat, error) {
			leader, _ := s.both()
			return seat([]string{leader.Addr()}, postgresURL(leader.URL()))
		},
		Mend:  s.mend,
		Close: func() error { return errors.Join(replica.Close(), primary.Close()) },
		Log:   func() string { return primary.Log() + "--- the other:\n" + replica.Log() },
	}, nil
}

func (s *postgresPair) both() (primary, replica *servers.Postgres) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.primary, s.replica
}

// mend has the primary serve and the replica follow it, as a copy made anew if they have parted.
func (s *postgresPair) mend(ctx context.Context) error {
	primary, replica := s.both()
	s.mu.Lock()
	parted := s.parted
	s.mu.Unlock()
	if err := revive(ctx, []*servers.Postgres{primary}); err != nil {
		return err
	}
	if err := askPostgres(ctx, primary); err != nil {
		return err
	}
	if parted {
		if err := replica.Follow(ctx, primary); err != nil {
			return err
		}
		s.mu.Lock()
		s.parted = false
		s.mu.Unlock()
	} else if err := revive(ctx, []*servers.Postgres{replica}); err != nil {
		return err
	}
	return s.caughtUp(ctx)
}

// caughtUp waits until the replica has all that the primary has now.
func (s *postgresPair) caughtUp(ctx context.Context) error {
	primary, _ := s.both()
	conn, err := dialPostgres(ctx, primary.AdminURL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	// A commit that waits for the disk takes along what was written before it: only what is on disk is sent.
	var upTo string
	if err := conn.QueryRow(ctx, "SELECT pg_logical_emit_message(true, 'lockport', 'up to here')::text").Scan(&upTo); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) error {
		var there bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE replay_lsn >= $1::text::pg_lsn)", upTo).Scan(&there)
		if err == nil && !there {
			err = errors.New("the replica has not caught up")
		}
		return err
	})
}

// promote has the replica take the primary's place, for clients that are led to it from now on.
func (s *postgresPair) promote(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parted = true
	if err := askPostgres(ctx, s.replica, "SELECT pg_promote()"); err != nil {
		return err
	}
	s.primary, s.replica = s.replica, s.primary
	return nil
}

// failOver kills the primary, promotes the replica, and leads everybody there, as a service's address that moves does.
func failOver(ctx context.Context, p *faults.Phase) error {
	primary, _ := p.World.Servers.(*postgresPair).both()
	p.Struck()
	if err := primary.Kill(); err != nil {
		return err
	}
	if err := p.Sleep(ctx, underWay+p.Between(0, p.World.TTL/4)); err != nil {
		return err
	}
	if err := moveOver(ctx, p); err != nil {
		return err
	}
	p.Mended()
	return nil
}

// failOverUnheard is failOver as fast as it can be, for a holder who hears nothing of it.
func failOverUnheard(ctx context.Context, p *faults.Phase, _ string) error {
	primary, _ := p.World.Servers.(*postgresPair).both()
	if err := primary.Kill(); err != nil {
		return err
	}
	return moveOver(ctx, p)
}

// moveOver promotes the replica, and leads everybody there.
func moveOver(ctx context.Context, p *faults.Phase) error {
	s := p.World.Servers.(*postgresPair)
	if err := s.promote(ctx); err != nil {
		return err
	}
	primary, _ := s.both()
	for _, w := range p.Workers() {
		for _, link := range w.Seat.Links {
			if err := link.Retarget(primary.Addr()); err != nil {
				return err
			}
		}
	}
	return nil
}

// splitBrain promotes a replica that lags, while the primary lives on, and a holder with it.
func splitBrain(ctx context.Context, p *faults.Phase) error {
	stays, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	first, err := stays.Acquire(ctx, p.Name(), 5*p.World.TTL)
	if err != nil {
		return err
	}
	if err := errors.Join(first.Release(ctx), p.World.Servers.(*postgresPair).lag(ctx)); err != nil {
		return err
	}
	older, err := stays.Acquire(ctx, p.Name(), 5*p.World.TTL)
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

// lag has the replica miss what the primary writes from now on, among which are a thousand tokens.
func (s *postgresPair) lag(ctx context.Context) error {
	primary, replica := s.both()
	s.mu.Lock()
	s.parted = true
	s.mu.Unlock()
	if err := askPostgres(ctx, replica, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) error {
		return askPostgres(ctx, primary, "SELECT 1 / (count(*) = 0)::int FROM pg_stat_replication",
			"SELECT count(nextval('public.lockport_token')) FROM generate_series(1, 1000)")
	})
}

// splitBrainAndCrash has the primary that lives on crash, too, and start again.
func splitBrainAndCrash(ctx context.Context, p *faults.Phase) error {
	s := p.World.Servers.(*postgresPair)
	stays, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	if _, err := stays.Acquire(ctx, p.Name(), 5*p.World.TTL); err != nil {
		return err
	}
	if err := s.caughtUp(ctx); err != nil {
		return err
	}
	older, err := holdElsewhere(ctx, p)
	if err != nil {
		return err
	}
	_, old := s.both()
	p.Note("the old primary crashes, and starts again")
	if err := old.Kill(); err != nil {
		return err
	}
	if err := old.Restart(ctx); err != nil {
		return err
	}
	newer, err := stays.Acquire(ctx, p.Name(), 5*p.World.TTL)
	if err != nil {
		return err
	}
	if newer.Token > older.Token {
		return fmt.Errorf("tokens tell the holders apart: %d came after %d", newer.Token, older.Token)
	}
	return p.Both(ctx, older, newer)
}

// holdElsewhere promotes the replica, and has a worker that is led there hold the lock.
func holdElsewhere(ctx context.Context, p *faults.Phase) (*faults.Hold, error) {
	p.Struck()
	p.Note("the replica is promoted, and the old primary lives on")
	if err := p.World.Servers.(*postgresPair).promote(ctx); err != nil {
		return nil, err
	}
	moves, err := p.Worker(ctx)
	if err != nil {
		return nil, err
	}
	return moves.Acquire(ctx, p.Name(), 5*p.World.TTL)
}
