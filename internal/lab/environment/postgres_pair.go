package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockport/lockport/internal/lab/servers"
)

// PostgresPair is a PostgreSQL with a streaming replica for fail-over. Clients are led to the primary.
type PostgresPair struct {
	base
	Primary, Replica *servers.Postgres
}

// startPostgresPair starts a pair.
func startPostgresPair(l layout) starter {
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
		p.base = baseOf(func() string { return l.url(p.Primary.URL()) }, servers.SetOf(primary.Server, replica.Server))
		p.reset = func(ctx context.Context) error { // the replica becomes a new copy of the primary
			if err := p.Replica.Follow(ctx, p.Primary); err != nil {
				return err
			}
			return p.CatchUp(ctx)
		}
		return p, nil
	}
}

// CatchUp waits until the replica has replayed everything that the primary has written so far.
func (p *PostgresPair) CatchUp(ctx context.Context) error {
	// The primary sends only WAL that is on disk. This message's commit flushes everything written before it.
	upTo, err := p.Primary.Texts(ctx, "SELECT pg_logical_emit_message(true, 'lockport', 'up to here')::text")
	if err != nil {
		return err
	}
	return p.untilTrue(ctx, "count(*) > 0 FROM pg_stat_replication WHERE replay_lsn >= '"+upTo[0]+"'")
}

// untilTrue waits until an expression is true at the primary.
func (p *PostgresPair) untilTrue(ctx context.Context, expression string) error {
	return servers.Poll(ctx, func(ctx context.Context) error {
		got, err := p.Primary.Texts(ctx, "SELECT "+expression)
		if err == nil && got[0] != "true" {
			err = fmt.Errorf("not yet: %s", expression)
		}
		return err
	})
}

// Promote implements Pair.
func (p *PostgresPair) Promote(ctx context.Context) error {
	if err := p.Replica.Run(ctx, "SELECT pg_promote()"); err != nil {
		return err
	}
	p.Primary, p.Replica = p.Replica, p.Primary
	slices.Reverse(p.Servers)
	return nil
}

// Lag implements Pair.
func (p *PostgresPair) Lag(ctx context.Context) error {
	if err := p.Replica.Run(ctx, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return p.untilTrue(ctx, "count(*) = 0 FROM pg_stat_replication")
}
