package environment

import (
	"context"
	"errors"
	"sync"

	"github.com/lockport/lockport/internal/lab/servers"
)

// postgresFailover is a PostgreSQL with a streaming replica to take its place.
var postgresFailover = sqlOf("postgres-failover", "a PostgreSQL with a replica, which is promoted", "postgres", []string{"postgres"},
	func(ctx context.Context) (Servers, error) {
		settings := map[string]string{"wal_retrieve_retry_interval": "100ms"}
		primary, err := servers.StartPostgres(ctx, servers.PostgresOptions{Settings: settings})
		if err != nil {
			return nil, err
		}
		replica, err := servers.StartPostgres(ctx, servers.PostgresOptions{Primary: primary})
		if err != nil {
			return nil, errors.Join(err, primary.Close())
		}
		return &PostgresPair{base: hiddenOf("a PostgreSQL with a replica", replica, primary), primary: primary, replica: replica}, nil
	})

// PostgresPair is a primary and its replica.
type PostgresPair struct {
	base

	mu               sync.Mutex
	primary, replica *servers.Postgres // where clients are led; the other one
	parted           bool              // the replica does not follow the primary
}

// Both are the servers as they are now.
func (p *PostgresPair) Both() (primary, replica *servers.Postgres) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.primary, p.replica
}

// Addrs implements Servers.
func (p *PostgresPair) Addrs() []string {
	primary, _ := p.Both()
	return []string{primary.Addr()}
}

// URL implements Servers.
func (p *PostgresPair) URL(addrs []string) string {
	primary, _ := p.Both()
	return sqlURL(primary.URL(), addrs)
}

// at is a step that runs statements at a server.
func (p *PostgresPair) at(s *servers.Postgres, statements ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		a := postgresAdmin(s)
		defer a.close()
		return a.Run(ctx, statements...)
	}
}

// Heal makes the replica follow the primary, as a copy made anew if they have parted.
func (p *PostgresPair) Heal(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return inOrder(ctx, running(p.primary), p.rejoin, p.catchUp)
}

func (p *PostgresPair) rejoin(ctx context.Context) error {
	if !p.parted {
		return Revive(ctx, p.replica)
	}
	err := inOrder(ctx, p.at(p.primary), func(ctx context.Context) error { return p.replica.Follow(ctx, p.primary) })
	p.parted = err != nil
	return err
}

// CatchUp waits until the replica has all that the primary has now.
func (p *PostgresPair) CatchUp(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.catchUp(ctx)
}

func (p *PostgresPair) catchUp(ctx context.Context) error {
	a := postgresAdmin(p.primary)
	defer a.close()
	// A commit that waits for the disk takes along what was written before it: only what is on disk is sent.
	var upTo string
	if err := a.row(ctx, &upTo, "SELECT pg_logical_emit_message(true, 'lockport', 'up to here')::text"); err != nil {
		return err
	}
	return Eventually(ctx, func(ctx context.Context) error {
		var there bool
		err := a.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE replay_lsn >= $1::text::pg_lsn)", upTo).Scan(&there)
		if err == nil && !there {
			err = errors.New("the replica has not caught up")
		}
		return err
	})
}

// Promote makes the replica the primary. Clients are led there from now on.
func (p *PostgresPair) Promote(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parted = true
	if err := p.at(p.replica, "SELECT pg_promote()")(ctx); err != nil {
		return err
	}
	p.primary, p.replica = p.replica, p.primary
	return nil
}

// FailOver implements Servers.
func (p *PostgresPair) FailOver(ctx context.Context) error {
	primary, _ := p.Both()
	return inOrder(ctx, now(primary.Kill), p.Promote)
}

// Part makes the replica miss what the primary writes from now on, which includes a thousand tokens.
func (p *PostgresPair) Part(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parted = true
	draw := p.at(p.primary, "SELECT 1 / (count(*) = 0)::int FROM pg_stat_replication",
		"SELECT count(nextval('public.lockport_token')) FROM generate_series(1, 1000)")
	return inOrder(ctx, p.at(p.replica, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"),
		func(ctx context.Context) error { return Eventually(ctx, draw) })
}
