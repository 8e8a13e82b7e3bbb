package worlds

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

var mySQLCells = []faults.Cell{
	{
		Fault: "server-killed", Outcome: faults.Unavailable, Recovery: backRecovery, Strike: killed(granting), Why: whyKilled,
	},
	{
		Fault: "server-restarted", Outcome: faults.UnsafeFenced, Recovery: backRecovery, Gone: true, Argued: true, Strike: restarted(granting), Why: whyRestarted,
	},
	{
		Fault: "server-restarted-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(restart(granting)), Tries: 10,
		Why: whyRestartedBehindSilence,
	},
	{
		Fault: "server-paused-briefly", Outcome: faults.Safe, Strike: pausedBriefly(granting), Why: whyPausedBriefly,
	},
	{
		Fault: "server-paused", Outcome: faults.Unavailable, Recovery: backRecovery, Strike: pausedLong(granting), Why: whyPaused,
	},
	{
		Fault: "session-killed", Outcome: faults.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(endClaim), Why: whyEnded,
	},
	{
		Fault: "session-killed-behind-silence", Outcome: faults.UnsafeFenced, Gone: true, Script: endedBehindSilence(endClaim), Why: whyEndedBehindSilence,
	},
	{
		Fault: "wait-timeout-set", Outcome: faults.Safe, Script: shorterTimeout(setWaitTimeout),
		Why: "an administrator's shorter wait_timeout does not end our sessions: each sets the TTL for itself",
	},
	{
		Fault: "too-many-connections", Outcome: faults.Safe, Strike: tooManySessions, Why: whyTooMany,
	},
	{
		Fault: "token-table-locked", Outcome: faults.Safe, Strike: tokenTableLocked,
		Why: "who has a lock keeps it, or is told in time that it is lost; who wants one can draw no token, gives the lock back and gets an error",
	},
	{
		Fault: "token-table-dropped", Outcome: faults.Safe, Strike: tokenTableDropped,
		Why: "the table is made anew, and the next tokens are the server's clock, which is ahead of those before",
	},
	{
		Fault: "split-brain", Outcome: faults.UnsafeFenced, Gone: true, Script: splitMySQL,
		Why: "replication knows nothing of GET_LOCK: a server that takes the place of one that lives on with its clients grants at once; its tokens are its clock or more, if that is right",
	},
}

// endClaim ends the session that has the lock on name.
func (s *oneMySQL) endClaim(ctx context.Context, name string) error {
	var id sql.NullInt64
	if err := s.admin.QueryRowContext(ctx, "SELECT IS_USED_LOCK(SHA2(CONCAT('lockport:', ?), 256))", name).Scan(&id); err != nil {
		return err
	}
	if !id.Valid {
		return errNotHeld
	}
	_, err := s.admin.ExecContext(ctx, fmt.Sprint("KILL ", id.Int64))
	return err
}

// setWaitTimeout sets for new sessions after what time of silence they end.
func setWaitTimeout(ctx context.Context, p *faults.Phase, d time.Duration) error {
	_, err := p.World.Servers.(*oneMySQL).admin.ExecContext(ctx, fmt.Sprint("SET GLOBAL wait_timeout = ", int(d.Seconds())))
	return err
}

// tooManySessions takes all connections that the server has left for the workers' user, for a while.
func tooManySessions(ctx context.Context, p *faults.Phase) error {
	connector, err := (gomysql.MySQLDriver{}).OpenConnector(p.World.Servers.(*oneMySQL).server.DSN())
	if err != nil {
		return err
	}
	return useUpConnections(ctx, p, func(ctx context.Context) (func(), error) {
		conn, err := connector.Connect(ctx)
		var answer *gomysql.MySQLError
		switch {
		case errors.As(err, &answer) && answer.Number == 1040:
			return nil, nil
		case err != nil:
			return nil, err
		}
		return func() { _ = conn.Close() }, nil
	})
}

// tokenTableLocked has somebody lock the table of tokens, as some backups do, for longer than a statement waits for it.
func tokenTableLocked(ctx context.Context, p *faults.Phase) (err error) {
	conn, err := p.World.Servers.(*oneMySQL).admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	p.Struck()
	if _, err := conn.ExecContext(ctx, "LOCK TABLES lockport_fence WRITE"); err != nil {
		return err
	}
	err = p.Sleep(ctx, p.Between(p.World.TTL, 2*p.World.TTL))
	// Also when ctx has ended: the session goes back to the pool, where it would keep the table.
	if _, unlocking := conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); unlocking != nil {
		return errors.Join(err, unlocking)
	}
	p.Mended()
	return err
}

// tokenTableDropped has somebody drop the table of tokens, again and again.
func tokenTableDropped(ctx context.Context, p *faults.Phase) error {
	for range 5 {
		p.Struck()
		if _, err := p.World.Servers.(*oneMySQL).admin.ExecContext(ctx, "DROP TABLE IF EXISTS lockport_fence"); err != nil {
			return err
		}
		if err := p.Sleep(ctx, p.Between(0, p.World.TTL/4)); err != nil {
			return err
		}
	}
	return nil
}

// splitMySQL has a server that knows nothing take the place of one that lives on, and a holder with it: as a replica that lags does which is promoted.
func splitMySQL(ctx context.Context, p *faults.Phase) (err error) {
	s := p.World.Servers.(*oneMySQL)
	stays, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	older, err := stays.Acquire(ctx, p.Name(), 5*p.World.TTL)
	if err != nil {
		return err
	}
	spare, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spare.Close()) }()
	p.Struck()
	s.spare.Store(spare)
	defer s.spare.Store(nil)
	moves, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	newer, err := moves.Acquire(ctx, p.Name(), 5*p.World.TTL)
	if err != nil {
		return err
	}
	if err := p.Both(ctx, older, newer); err != nil {
		return err
	}
	return newer.Release(ctx)
}
