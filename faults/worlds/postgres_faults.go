package worlds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/faults"
)

var postgresCells = []faults.Cell{
	{
		Fault: "server-killed", Outcome: faults.Unavailable, Recovery: backRecovery, Strike: killed(granting),
		Why: whyKilled,
	},
	{
		Fault: "server-restarted", Outcome: faults.UnsafeFenced, Recovery: backRecovery, Gone: true, Argued: true, Strike: restarted(granting),
		Why: whyRestarted,
	},
	{
		Fault: "server-restarted-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(restart(granting)), Tries: 10,
		Why: whyRestartedBehindSilence,
	},
	{
		Fault: "server-paused-briefly", Outcome: faults.Safe, Strike: pausedBriefly(granting),
		Why: whyPausedBriefly,
	},
	{
		Fault: "server-paused", Outcome: faults.Unavailable, Recovery: backRecovery, Strike: pausedLong(granting),
		Why: whyPaused,
	},
	{
		Fault: "session-terminated", Outcome: faults.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(endClaim), Why: whyEnded,
	},
	{
		Fault: "session-terminated-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(endClaim), Why: whyEndedBehindSilence,
	},
	{
		Fault: "lock-table-full", Outcome: faults.Safe, Strike: lockTableFull,
		Why: "who holds a lock can renew and release it; who wants one gets an error until there is room",
	},
	{
		Fault: "too-many-connections", Outcome: faults.Safe, Strike: tooManyConnections,
		Why: whyTooMany,
	},
	{
		Fault: "idle-sessions-ended", Outcome: faults.Safe, Script: shorterTimeout(setPostgresTimeout),
		Why: "an administrator's shorter idle_session_timeout does not end our sessions: each sets the TTL for itself",
	},
}

// lockTableFull has a foreign session take so many locks that the server has room for no more, and whatever is given back meanwhile.
func lockTableFull(ctx context.Context, p *faults.Phase) error {
	conn, err := dialPostgres(ctx, p.World.Servers.(*onePostgres).server.AdminURL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	p.Struck()
	end := time.Now().Add(p.Between(p.World.TTL/2, p.World.TTL))
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
	if err := conn.Close(ctx); err != nil {
		return err
	}
	p.Mended()
	return nil
}

// tooManyConnections takes all connections that the server has left for the workers' role, for a while.
func tooManyConnections(ctx context.Context, p *faults.Phase) error {
	url := p.World.Servers.(*onePostgres).server.URL()
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
func setPostgresTimeout(ctx context.Context, p *faults.Phase, d time.Duration) error {
	server := p.World.Servers.(*onePostgres).server
	if err := askPostgres(ctx, server, fmt.Sprintf("ALTER SYSTEM SET idle_session_timeout = %d", d.Milliseconds()), "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) error {
		return askPostgres(ctx, server, fmt.Sprintf("SELECT 1 / (setting = '%d')::int FROM pg_settings WHERE name = 'idle_session_timeout'", d.Milliseconds()))
	})
}
