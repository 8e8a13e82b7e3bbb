package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// crashGap is how far the sequence is moved on after a crash: more values than can have been drawn just before it without reaching the server's log.
// There is room for eight million crashes and restarts.
const crashGap = 1 << 30

// thisStart is the condition for a row that a session since the server's start has written.
const thisStart = ` WHERE begun = pg_postmaster_start_time()`

// setUpLock is the advisory lock, in the space of two 32-bit keys, that guards creating the objects and moving the sequence on.
var setUpLock = func() string { hi, lo := side(0); return fmt.Sprintf("%d, %d", hi, lo) }()

// tokens draws fencing tokens from a sequence.
//
// A drawn value can be lost. The server logs 32 values ahead, and our sessions (synchronous_commit = off) do not wait until the log is on disk. If they
// did, only the one that logs would: others return values from the same 32 at once. A crash in between takes values back. Waiting in each grant would
// cost a write each. Instead, the first session after a crash or a start of the server moves the sequence on by crashGap. An unlogged table tells it:
// the server empties it when it recovers (https://www.postgresql.org/docs/current/sql-createtable.html), and otherwise its row has another start time.
// Aurora does not empty it. A promoted reader may have started before the writer's row was written, so the times are compared for equality.
type tokens struct{ schema string }

func (t tokens) sequence() string { return identifier(t.schema) + ".lockport_token" }
func (t tokens) epoch() string    { return identifier(t.schema) + ".lockport_epoch" }

// identifier quotes a name.
func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// draw is the SQL expression that draws a token.
func (t tokens) draw() string { return `nextval(` + quote(t.sequence()) + `::regclass)` }

// prepare makes sure that tokens can be drawn, and rise. It creates missing objects, and after a crash or a start moves the sequence on.
func (t tokens) prepare(ctx context.Context, c *pgx.Conn) error {
	var missing, started bool
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT to_regclass(%s) IS NULL OR to_regclass(%s) IS NULL`, quote(t.sequence()), quote(t.epoch())), once).Scan(&missing)
	switch {
	case err != nil:
		return err
	case missing:
		if err := t.create(ctx, c); err != nil {
			return t.explain(err)
		}
	}
	err = c.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM `+t.epoch()+thisStart+`)`, once).Scan(&started)
	if err != nil || !started {
		return t.explain(err)
	}
	return t.explain(run(ctx, c, `BEGIN; SET LOCAL synchronous_commit = local; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(`+setUpLock+`);
		WITH first AS (INSERT INTO `+t.epoch()+` SELECT pg_postmaster_start_time() WHERE NOT EXISTS (SELECT FROM `+t.epoch()+thisStart+`) RETURNING begun)
		SELECT setval(`+quote(t.sequence())+`, last_value + `+fmt.Sprint(crashGap)+`) FROM `+t.sequence()+`, first; COMMIT`))
}

// checkRights finds missing privileges that prepare needs only after a start of the server, or a draw.
func (t tokens) checkRights(ctx context.Context, c *pgx.Conn) error {
	var enough bool
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT has_sequence_privilege(%[1]s, 'SELECT') AND has_sequence_privilege(%[1]s, 'UPDATE') AND has_table_privilege(%[2]s, 'INSERT')`,
		quote(t.sequence()), quote(t.epoch())), once).Scan(&enough)
	if err == nil && !enough {
		err = &pgconn.PgError{Code: "42501", Message: "the role lacks a privilege on the token sequence or its table"}
	}
	return t.explain(err)
}

// ddl creates the sequence and the table. The sequence begins after the transaction ids, which earlier versions could use for tokens.
func (t tokens) ddl(start int64) string {
	return fmt.Sprintf(`CREATE SEQUENCE IF NOT EXISTS %s AS bigint MINVALUE 1 MAXVALUE %d START %d CACHE 1; CREATE UNLOGGED TABLE IF NOT EXISTS %s (begun timestamptz NOT NULL)`,
		t.sequence(), driver.MaxToken, start, t.epoch())
}

func (t tokens) create(ctx context.Context, c *pgx.Conn) error {
	var start int64
	err := c.QueryRow(ctx, `SELECT pg_current_xact_id()::text::bigint`, once).Scan(&start)
	if err == nil {
		err = run(ctx, c, `BEGIN; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(`+setUpLock+`); `+
			t.ddl(start)+`; COMMIT`)
	}
	return err
}

// grants is the SQL that lets another role draw tokens.
func (t tokens) grants() string {
	return fmt.Sprintf("; GRANT USAGE, SELECT, UPDATE ON SEQUENCE %s TO PUBLIC; GRANT SELECT, INSERT ON %s TO PUBLIC", t.sequence(), t.epoch())
}

// explain adds the remedy for a missing privilege or schema.
func (t tokens) explain(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "3F000") { // insufficient_privilege, invalid_schema_name
		return fmt.Errorf("%w: %s; tokens need a sequence and a table: name a schema in which this role may create, or have their owner run: %s",
			driver.ErrRefused, session.OneLine(pg.Message), t.ddl(1)+t.grants())
	}
	return err
}
