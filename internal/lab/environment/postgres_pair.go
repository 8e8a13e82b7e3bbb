package environment

import (
	"context"
	"errors"

	"github.com/lockport/lockport/internal/lab/servers"
)

// PostgresPair is a PostgreSQL with a streaming replica for fail-over. Clients are led to the primary.
type PostgresPair struct {
	base
	Primary, Replica *servers.Postgres
	diverged         bool // the replica no longer follows the primary
}

// startPostgresPair starts a pair.
func startPostgresPair(locks layout) starter {
	return func(ctx context.Context) (Servers, error) {
		primary, err := servers.StartPostgres(ctx, servers.PostgresOptions{Config: []string{"wal_retrieve_retry_interval = 100ms"}})
		if err != nil {
			return nil, err
		}
		replica, err := servers.StartPostgres(ctx, servers.PostgresOptions{Primary: primary})
		if err != nil {
			return nil, errors.Join(err, primary.Close())
		}
		p := &PostgresPair{Primary: primary, Replica: replica}
		p.base = baseOf(func() string { return locks.url(p.Primary.URL()) }, replica.Server, primary.Server)
		p.hidden = true
		return p, nil
	}
}

// runAt makes a step that runs statements at a server.
func runAt(s *servers.Postgres, statements ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		a := postgresAdmin(s)
		return errors.Join(a.Run(ctx, statements...), a.Close())
	}
}

// Heal makes the replica follow the primary. If they have diverged, the replica becomes a new copy of the primary.
func (p *PostgresPair) Heal(ctx context.Context) error {
	return inOrder(ctx, running(p.Primary.Server), p.rejoin, p.CatchUp)
}

func (p *PostgresPair) rejoin(ctx context.Context) error {
	if !p.diverged {
		return Revive(ctx, p.Replica.Server)
	}
	err := inOrder(ctx, runAt(p.Primary), func(ctx context.Context) error { return p.Replica.Follow(ctx, p.Primary) })
	p.diverged = err != nil
	return err
}

// CatchUp waits until the replica has replayed everything that the primary has written so far.
func (p *PostgresPair) CatchUp(ctx context.Context) error {
	a := postgresAdmin(p.Primary)
	defer func() { _ = a.Close() }()
	if err := a.ready(ctx); err != nil {
		return err
	}
	// The primary sends only WAL that is on disk. This message's commit flushes everything written before it.
	upTo, err := texts(ctx, a, "SELECT pg_logical_emit_message(true, 'lockport', 'up to here')::text")
	if err != nil {
		return err
	}
	return servers.Poll(ctx, func(ctx context.Context) error {
		return a.Run(ctx, "SELECT 1 / count(*) FROM pg_stat_replication WHERE replay_lsn >= '"+upTo[0]+"'") // fails until it has caught up
	})
}

// Promote makes the replica the primary. New connections go there.
func (p *PostgresPair) Promote(ctx context.Context) error {
	p.diverged = true
	if err := runAt(p.Replica, "SELECT pg_promote()")(ctx); err != nil {
		return err
	}
	p.Primary, p.Replica = p.Replica, p.Primary
	return nil
}

// FailOver implements Servers.
func (p *PostgresPair) FailOver(ctx context.Context) error {
	return inOrder(ctx, now(p.Primary.Kill), p.Promote)
}

// Lag implements Servers.
func (p *PostgresPair) Lag(ctx context.Context) error {
	p.diverged = true
	alone := runAt(p.Primary, "SELECT 1 / (count(*) = 0)::int FROM pg_stat_replication")
	return inOrder(ctx, runAt(p.Replica, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"),
		func(ctx context.Context) error { return servers.Poll(ctx, alone) })
}

// Part is Lag, and the replica also misses a thousand tokens.
func (p *PostgresPair) Part(ctx context.Context) error {
	return inOrder(ctx, p.Lag, runAt(p.Primary, "SELECT count(nextval('public.lockport_token')) FROM generate_series(1, 1000)"))
}
