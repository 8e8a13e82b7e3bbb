package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

func postgresIn(p *play.Phase) *environment.Postgres {
	return p.Environment.Servers.(*environment.Postgres)
}

var postgresCells = append(sessionCells("session-terminated"), []play.Cell{
	{
		Fault: "lock-table-full", Outcome: play.Safe, Inject: lockTableFull,
		Why: "who holds a lock can renew and release it; who wants one gets an error until there is room",
	},
	{
		Fault: "too-many-connections", Outcome: play.Safe, Inject: tooManyConnections,
		Why: whyTooMany,
	},
	{
		Fault: "idle-sessions-ended", Outcome: play.Safe, Script: shorterTimeout(setPostgresTimeout),
		Why: "an administrator's shorter idle_session_timeout does not end our sessions: each sets the TTL for itself",
	},
}...)

// lockTableFull has a foreign session take so many locks that the server has room for no more, and whatever is given back meanwhile.
func lockTableFull(ctx context.Context, p *play.Phase) error {
	p.Injected()
	err := environment.AtPostgres(ctx, postgresIn(p).Server, func(conn *pgx.Conn) error { return fillLockTable(ctx, p, conn) })
	if err == nil {
		p.Healed()
	}
	return err
}

func fillLockTable(ctx context.Context, p *play.Phase, conn *pgx.Conn) error {
	end := time.Now().Add(p.Between(p.Environment.TTL/2, p.Environment.TTL))
	for key, full := 0, false; !full || time.Now().Before(end); {
		_, err := conn.Exec(ctx, "SELECT pg_advisory_lock(0, key) FROM generate_series($1::int, $1 + 999) AS key", key)
		key += 1000 // those which it got of a thousand it keeps, also where the statement fails
		if full = full || isState(err, "53200"); full {
			err = p.Sleep(ctx, 10*time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("filling the lock table: %w", err)
		}
	}
	return nil
}

// tooManyConnections takes all connections that the server has left for the workers' role, for a while.
func tooManyConnections(ctx context.Context, p *play.Phase) error {
	url := postgresIn(p).Server.URL()
	return useUpConnections(ctx, p, func(ctx context.Context) (func(), error) {
		conn, err := pgx.Connect(ctx, url)
		if isState(err, "53300") {
			return nil, nil
		}
		return func() { _ = conn.Close(context.WithoutCancel(ctx)) }, err
	})
}

// isState says that the server answered with an error of this code.
func isState(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}

// setPostgresTimeout sets after what time of silence new sessions end, and returns when that is so.
func setPostgresTimeout(ctx context.Context, p *play.Phase, d time.Duration) error {
	server := postgresIn(p).Server
	if err := environment.AskPostgres(ctx, server, fmt.Sprintf("ALTER SYSTEM SET idle_session_timeout = %d", d.Milliseconds()), "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return environment.Eventually(ctx, func(ctx context.Context) error {
		return environment.AskPostgres(ctx, server, fmt.Sprintf("SELECT 1 / (setting = '%d')::int FROM pg_settings WHERE name = 'idle_session_timeout'", d.Milliseconds()))
	})
}

// postgresPoolerCells are the faults of a PostgreSQL behind PgBouncer, and of that.
var postgresPoolerCells = []play.Cell{
	{
		Fault: "server-killed", Outcome: play.Unavailable, Recovery: backRecovery, Inject: killed(pooled), Why: whyKilled,
	},
	{
		Fault: "pooler-killed", Outcome: play.Unavailable, Recovery: backRecovery, Inject: killed(pooler),
		Why: "its connections are closed on both sides, by which the server frees the locks and holders know in milliseconds; it is away for half a second or more",
	},
	{
		Fault: "pooler-restarted-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(restart(pooler)), Tries: 10,
		Why: "the server frees the locks when the pooler closes its connections; a holder whose link is silent believes until its deadline; the token protects",
	},
	{
		Fault: "pooler-paused", Outcome: play.Unavailable, Inject: pausedLong(pooler),
		Why: "holders and the server hear nothing of each other: it is a silence, in which holders give up before the server ends their sessions",
	},
	{
		Fault: "client-idle-timeout", Outcome: play.Safe, Script: shorterTimeout(setClientIdleTimeout),
		Why: "in session mode a client that has a session is not idle for PgBouncer, however long it is silent",
	},
}

func poolerIn(p *play.Phase) *environment.PooledPostgres {
	return p.Environment.Servers.(*environment.PooledPostgres)
}

func pooled(p *play.Phase) environment.Node { return poolerIn(p).Server }

func pooler(p *play.Phase) environment.Node { return poolerIn(p).Pooler }

// setClientIdleTimeout sets after what time of silence the pooler ends a client.
func setClientIdleTimeout(ctx context.Context, p *play.Phase, d time.Duration) error {
	return poolerIn(p).Set(ctx, "client_idle_timeout", d)
}
