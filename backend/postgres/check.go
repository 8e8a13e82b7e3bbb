package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
	"github.com/lockport/lockport/internal/session"
)

// Check implements driver.Checker. It opens a session as for locks, which creates the token sequence and table if they are missing, and takes the
// session's marker, a lock. Then it reads the server's settings.
func (b *Backend) Check(ctx context.Context) (notices []driver.Notice, err error) {
	err = b.server.withConn(ctx, func(c *pgx.Conn) error {
		err := b.server.setUp(ctx, c, "check", rand.Int64())
		if err == nil {
			err = b.server.tokens.checkRights(ctx, c)
		}
		if err == nil {
			notices, err = b.server.notices(ctx, c)
		}
		return err
	})
	return notices, session.Refuse(err)
}

// catalog reads views and tables that an administrator may have closed to this role: connections, replicas and the sequence.
func (s *server) catalog(ctx context.Context, c *pgx.Conn) ([]driver.Notice, error) {
	sequence := s.tokens.sequence()
	var limit, used, replicas int
	var odd bool
	err := c.QueryRow(ctx, `SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
			- coalesce(current_setting('reserved_connections', true)::bigint, 0),
		(SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database),
		(SELECT count(*) FROM pg_stat_replication),
		coalesce((SELECT seqcache <> 1 OR seqincrement < 1 OR seqcycle FROM pg_sequence WHERE seqrelid = to_regclass(`+quote(sequence)+`)), false)`, once).Scan(&limit, &used, &replicas, &odd)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" { // insufficient_privilege
		return []driver.Notice{{ID: "catalog", Unknown: true,
			Text:   fmt.Sprintf("This role may not see the server's connections, its replicas or the settings of the token sequence: %s.", session.OneLine(pg.Message)),
			Remedy: "GRANT SELECT ON pg_stat_database, pg_stat_replication, pg_sequence, or check them yourself."}}, nil
	}
	if err != nil {
		return nil, err
	}
	notices := notice.Connections(used, limit, s.most)
	notices = append(notices, notice.Replication(replicas, "advisory locks")...)
	if odd {
		notices = append(notices, driver.Notice{ID: "sequence",
			Text:   fmt.Sprintf("CACHE, INCREMENT or CYCLE of the sequence %s was changed: fencing tokens do not rise in the order of grants.", sequence),
			Remedy: fmt.Sprintf("ALTER SEQUENCE %s CACHE 1 INCREMENT 1 NO CYCLE", sequence)})
	}
	return notices, nil
}

// notices returns what puts locks at risk.
func (s *server) notices(ctx context.Context, c *pgx.Conn) (notices []driver.Notice, err error) {
	socket := c.PgConn().Conn()
	if _, ok := socket.(*tls.Conn); !ok && c.Config().Password != "" { // pgx does not report the authentication method
		notices = notice.InTheClear(socket.RemoteAddr().String())
	}
	var unsafe bool
	// A role that may not read pg_locks, where this query's own lock is, is refused: it could never confirm that an earlier session has ended.
	err = c.QueryRow(ctx, `SELECT 'off' IN (current_setting('fsync'), current_setting('full_page_writes')) FROM pg_locks LIMIT 1`, once).Scan(&unsafe)
	if err != nil {
		return nil, err
	}
	if unsafe {
		notices = append(notices, driver.Notice{ID: "fsync",
			Text:   "The setting fsync or full_page_writes is off: a machine crash can damage the database and make fencing tokens repeat.",
			Remedy: "Set fsync and full_page_writes to on."})
	}
	if s.wholeSessions.Load() {
		notices = append(notices, driver.Notice{ID: "pooler",
			Text:   "The connection goes through a pooler such as PgBouncer, now in session mode: in any other mode, locks exclude nobody.",
			Remedy: "Connect to the server itself; otherwise leave pool_mode = session."})
	}
	found, err := s.catalog(ctx, c)
	return append(notices, found...), err
}
