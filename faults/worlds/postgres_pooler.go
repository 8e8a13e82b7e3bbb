package worlds

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// PostgresPooler is a PostgreSQL behind a PgBouncer in session mode.
var PostgresPooler = faults.Arrangement{
	Name:          "postgres-pgbouncer",
	Title:         "a PostgreSQL behind PgBouncer in session mode",
	Backend:       "postgres",
	TTL:           sessionTTL,
	Margin:        marginOf(sessionTTL),
	Sessions:      true,
	Tokens:        true,
	RemovalNotice: 100 * time.Millisecond,
	Needs:         []string{"postgres", "pgbouncer"},
	Start:         startPostgresPooler,
	Cells: slices.Concat(faults.Common(false, closedBothWays...), []faults.Cell{
		{
			Fault: "server-killed", Outcome: faults.Unavailable, Recovery: backRecovery, Strike: killed(granting), Why: whyKilled,
		},
		{
			Fault: "pooler-killed", Outcome: faults.Unavailable, Recovery: backRecovery, Strike: killed(pooler),
			Why: "its connections are closed on both sides, by which the server frees the locks and holders know in milliseconds; it is away for half a second or more",
		},
		{
			Fault: "pooler-restarted-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(restart(pooler)), Tries: 10,
			Why: "the server frees the locks when the pooler closes its connections; a holder whose link is silent believes until its deadline; the token protects",
		},
		{
			Fault: "pooler-paused", Outcome: faults.Unavailable, Strike: pausedLong(pooler),
			Why: "holders and the server hear nothing of each other: it is a silence, in which holders give up before the server ends their sessions",
		},
		{
			Fault: "client-idle-timeout", Outcome: faults.Safe, Script: shorterTimeout(setClientIdleTimeout),
			Why: "in session mode a client that has a session is not idle for PgBouncer, however long it is silent",
		},
	}),
}

// pooledPostgres is what the strikes on it work on.
type pooledPostgres struct {
	onePostgres
	pooler *servers.PgBouncer
}

func pooler(p *faults.Phase) process { return p.World.Servers.(*pooledPostgres).pooler }

func startPostgresPooler(ctx context.Context) (*faults.World, error) {
	server, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		return nil, err
	}
	bouncer, err := servers.StartPgBouncer(ctx, servers.PgBouncerOptions{Server: server, Config: []string{
		"default_pool_size = 60", "admin_users = lockport",
		"server_login_retry = 1", // else it waits for 15 s before it connects again to a server that was away
	}})
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	s := &pooledPostgres{onePostgres: onePostgres{server: server}, pooler: bouncer}
	return &faults.World{
		Servers: s,
		Seat:    func() (*faults.Seat, error) { return seat([]string{bouncer.Addr()}, postgresURL(bouncer.URL())) },
		Mend:    s.mend,
		Close:   func() error { return errors.Join(bouncer.Close(), server.Close()) },
		Log:     func() string { return server.Log() + "--- PgBouncer:\n" + bouncer.Log() },
	}, nil
}

func (s *pooledPostgres) mend(ctx context.Context) error {
	if err := s.onePostgres.mend(ctx); err != nil {
		return err
	}
	if err := revive(ctx, []*servers.PgBouncer{s.pooler}); err != nil {
		return err
	}
	return s.set(ctx, "client_idle_timeout", 0)
}

// set sets a setting of the pooler's, in seconds, as its administrator does.
func (s *pooledPostgres) set(ctx context.Context, name string, d time.Duration) error {
	u, err := url.Parse(s.pooler.URL())
	if err != nil {
		return err
	}
	u.Path = "/pgbouncer" // its own console
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return eventually(ctx, func(ctx context.Context) error {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, fmt.Sprintf("SET %s = %d", name, int(d.Seconds())))
		return errors.Join(err, conn.Close(ctx))
	})
}

// setClientIdleTimeout sets after what time of silence the pooler ends a client.
func setClientIdleTimeout(ctx context.Context, p *faults.Phase, d time.Duration) error {
	return p.World.Servers.(*pooledPostgres).set(ctx, "client_idle_timeout", d)
}
