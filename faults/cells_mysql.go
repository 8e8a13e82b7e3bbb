package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

func mySQLIn(p *play.Phase) *environment.MySQL { return p.Environment.Servers.(*environment.MySQL) }

var mySQLCells = append(sessionCells("session-killed"), []play.Cell{
	{
		Fault: "wait-timeout-set", Outcome: play.Safe, Script: shorterTimeout(setWaitTimeout),
		Why: "an administrator's shorter wait_timeout does not end our sessions: each sets the TTL for itself",
	},
	{
		Fault: "too-many-connections", Outcome: play.Safe, Inject: tooManySessions, Why: whyTooMany,
	},
	{
		Fault: "token-table-locked", Outcome: play.Safe, Inject: tokenTableLocked,
		Why: "who has a lock keeps it, or is told in time that it is lost; who wants one can draw no token, gives the lock back and gets an error",
	},
	{
		Fault: "token-table-dropped", Outcome: play.Safe, Inject: tokenTableDropped,
		Why: "the table is made anew, and the next tokens are the server's clock, which is ahead of those before",
	},
	{
		Fault: "split-brain", Outcome: play.UnsafeFenced, Gone: true, Script: splitMySQL,
		Why: "replication knows nothing of GET_LOCK: a server that takes the place of one that lives on with its clients grants at once; its tokens are its clock or more, if that is right",
	},
}...)

// setWaitTimeout sets for new sessions after what time of silence they end.
func setWaitTimeout(ctx context.Context, p *play.Phase, d time.Duration) error {
	_, err := mySQLIn(p).Admin.ExecContext(ctx, fmt.Sprint("SET GLOBAL wait_timeout = ", int(d.Seconds())))
	return err
}

// tooManySessions takes all connections that the server has left for the workers' user, for a while.
func tooManySessions(ctx context.Context, p *play.Phase) error {
	connector, err := (gomysql.MySQLDriver{}).OpenConnector(mySQLIn(p).Server.DSN())
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
func tokenTableLocked(ctx context.Context, p *play.Phase) (err error) {
	conn, err := mySQLIn(p).Admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	p.Injected()
	if _, err := conn.ExecContext(ctx, "LOCK TABLES lockport_fence WRITE"); err != nil {
		return err
	}
	err = p.Sleep(ctx, p.Between(p.Environment.TTL, 2*p.Environment.TTL))
	// Also when ctx has ended: the session goes back to the pool, where it would keep the table.
	if _, unlocking := conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); unlocking != nil {
		return errors.Join(err, unlocking)
	}
	p.Healed()
	return err
}

// tokenTableDropped has somebody drop the table of tokens, again and again.
func tokenTableDropped(ctx context.Context, p *play.Phase) error {
	for range 5 {
		p.Injected()
		if _, err := mySQLIn(p).Admin.ExecContext(ctx, "DROP TABLE IF EXISTS lockport_fence"); err != nil {
			return err
		}
		if err := p.Sleep(ctx, p.Between(0, p.Environment.TTL/4)); err != nil {
			return err
		}
	}
	return nil
}

// splitMySQL has a server that knows nothing take the place of one that lives on, and a holder with it: as a replica that lags does which is promoted.
func splitMySQL(ctx context.Context, p *play.Phase) (err error) {
	s := mySQLIn(p)
	stays, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	older, err := stays.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
	if err != nil {
		return err
	}
	spare, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spare.Close()) }()
	p.Injected()
	s.Spare.Store(spare)
	defer s.Spare.Store(nil)
	moves, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	newer, err := moves.Acquire(ctx, p.Name(), 5*p.Environment.TTL)
	if err != nil {
		return err
	}
	if err := p.Both(ctx, older, newer); err != nil {
		return err
	}
	return newer.Release(ctx)
}
