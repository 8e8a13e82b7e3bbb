package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
)

var _ driver.Examiner = (*Backend)(nil)

// Examine implements driver.Examiner. The TTL is the session's, whatever is asked for.
func (b *Backend) Examine(ctx context.Context, _ time.Duration) (driver.Examination, error) {
	type result struct {
		found driver.Examination
		err   error
	}
	done := make(chan result, 1)
	go func() {
		found, err := b.examine(ctx)
		done <- result{found, err}
	}()
	select {
	case r := <-done:
		return r.found, r.err
	case <-ctx.Done():
		return driver.Examination{}, fmt.Errorf("%w: no answer of the server: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

func (b *Backend) examine(ctx context.Context) (found driver.Examination, err error) {
	raw, f, err := b.server.connect(ctx)
	if err != nil {
		return found, err
	}
	defer closeRaw(raw)
	version, _, _ := strings.Cut(raw.ParameterStatus("server_version"), " ")
	found.Server, found.TTL = "PostgreSQL "+version, b.server.ttl
	found.Notices = examine.EndOfLife("PostgreSQL", version, time.Now(), maintained, "https://www.postgresql.org/support/versioning/")
	for _, q := range b.questions(f) {
		row, err := queryRow(ctx, raw, q.sql, q.columns)
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == "42501": // insufficient_privilege
			found.Notices = append(found.Notices, driver.Notice{ID: q.id, Unknown: true,
				Text:   fmt.Sprintf("The server does not let us see %s: %s.", q.what, oneLine(pg.Message)),
				Remedy: "Grant the role SELECT on it, or look yourself."})
		case err != nil:
			return found, classify(err)
		default:
			found.Notices = append(found.Notices, q.judge(row)...)
		}
	}
	return found, nil
}

// examination is one question to the server, for a row of numbers.
type examination struct {
	id, what string // of the notice, and what it is about
	sql      string
	columns  int
	judge    func(row []int64) []driver.Notice
}

func (b *Backend) questions(f facts) []examination {
	all := []examination{
		{
			id: "connections", what: "how many connections are in use",
			sql: `SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
					- coalesce(current_setting('reserved_connections', true)::bigint, 0),
				(SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database),
				(SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
				(SELECT count(*) FROM pg_stat_activity WHERE usename = current_user),
				(SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
				(SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database WHERE datname = current_database())`,
			columns: 6,
			judge:   func(row []int64) []driver.Notice { return judgeConnections(row, 1+b.blockers) },
		},
		{id: "replication", what: "its replicas", sql: `SELECT count(*) FROM pg_stat_replication`, columns: 1, judge: judgeReplicas},
	}
	if t := b.server.tokens; !t.transactions && f.have.sequence {
		all = append(all, examination{
			id: "sequence", what: "how the sequence of fencing tokens counts",
			sql: `SELECT coalesce(max(seqcache), 1), coalesce(max(seqincrement), 1), coalesce(max(seqcycle::int), 0) FROM pg_sequence
				WHERE seqrelid = to_regclass(` + quote(t.sequence()) + `)`,
			columns: 3,
			judge:   func(row []int64) []driver.Notice { return judgeSequence(row, t.sequence()) },
		})
	}
	return all
}

// judgeConnections looks at three limits and what is used of each: the server's, the role's and the database's. A negative limit is none.
func judgeConnections(row []int64, need int) []driver.Notice {
	for i, whose := range []string{"", "For this role, ", "For this database, "} {
		limit, used := int(row[2*i]), int(row[2*i+1])
		if notices := examine.Connections(whose, used, limit, need); len(notices) > 0 {
			return notices
		}
	}
	return nil
}

func judgeReplicas(row []int64) []driver.Notice {
	if row[0] == 0 {
		return nil
	}
	return []driver.Notice{{ID: "replication",
		Text: fmt.Sprintf("The server has %d replica(s) connected, which know nothing of advisory locks: one that is promoted grants at once what is held on this server, "+
			"and as long as this one lives cut off, both grant.", row[0]),
		Remedy: "See that the old primary is stopped before another is promoted (fencing, STONITH), and check fencing tokens where it matters; etcd or ZooKeeper keep locks across a fail-over."}}
}

func judgeSequence(row []int64, name string) []driver.Notice {
	if row[0] == 1 && row[1] > 0 && row[2] == 0 {
		return nil
	}
	return []driver.Notice{{ID: "sequence",
		Text: fmt.Sprintf("The sequence %s has CACHE %d, INCREMENT %d, CYCLE %v: fencing tokens do not rise in the order of grants, and a resource refuses the right holder or takes the wrong one.",
			name, row[0], row[1], row[2] != 0),
		Remedy: fmt.Sprintf("ALTER SEQUENCE %s CACHE 1 INCREMENT 1 NO CYCLE", name)}}
}

// maintained is until when versions are.
var maintained = []examine.Maintained{
	{From: examine.Version{14}, Until: examine.EndOf(2026, time.November)},
	{From: examine.Version{15}, Until: examine.EndOf(2027, time.November)},
	{From: examine.Version{16}, Until: examine.EndOf(2028, time.November)},
	{From: examine.Version{17}, Until: examine.EndOf(2029, time.November)},
	{From: examine.Version{18}, Until: examine.EndOf(2030, time.November)},
	{From: examine.Version{19}},
}
