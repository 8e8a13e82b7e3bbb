package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
	"github.com/lockport/lockport/internal/sqlrow"
)

const (
	// keepRows is how long the row of an unused name is kept.
	keepRows = 7 * 24 * time.Hour
	// pruneRows limits how many rows are deleted at once; pruneEvery is after how many tokens that is repeated.
	pruneRows  = 1000
	pruneEvery = 1000
	// drawAttempts is how often a token is drawn if the server rolls it back in favor of another (a deadlock among new rows).
	drawAttempts = 3
)

// clock is the server's clock in microseconds. Sessions use UTC, where no hour repeats.
const clock = "CAST(UNIX_TIMESTAMP(NOW(6))*1000000 AS UNSIGNED)"

// createFence creates the table. A row describes the last claim of a name: its token, its owner and its session.
const createFence = "CREATE TABLE IF NOT EXISTS %s (" +
	"id VARCHAR(192) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY," +
	"token BIGINT UNSIGNED NOT NULL," +
	"name VARBINARY(1024) NOT NULL," +
	"owner VARBINARY(256) NOT NULL," +
	"session BIGINT UNSIGNED NOT NULL," +
	"marker CHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL," +
	"at DATETIME NOT NULL," +
	"KEY at (at)" +
	") ENGINE=InnoDB COMMENT='fencing tokens of lockport'"

// draw draws the tokens of locks that this session has just taken; if that fails, it releases them. A token is one more than the row's, or the
// server's clock if that is ahead. So tokens rise even if rows were pruned or lost with the data.
func (c *conn) draw(ctx context.Context, granted []*session.Op) error {
	s := c.server
	if s.o.NoTokens || len(granted) == 0 {
		return nil
	}
	if c.drawn += len(granted); c.drawn >= pruneEvery {
		c.drawn = 0
		_ = c.prune(ctx) // once the connection has failed, the next statement fails too
	}
	var written, keys []string
	for _, op := range granted {
		keys = append(keys, literal(op.Key))
		written = append(written, c.fenceRow(op.Key, "LAST_INSERT_ID("+clock+")", op))
	}
	last, err := c.write(ctx, written, "LAST_INSERT_ID(IF(token<"+clock+","+clock+",token+1))") // GREATEST of MariaDB 10.11.5 takes 2^63 for a negative number
	tokens := map[string]int64{string(granted[0].Key): last}
	if err == nil && len(granted) > 1 { // nobody else can change the rows while this session has the locks
		var rows []sqlrow.Row
		rows, err = c.rows(ctx, "SELECT id,token FROM "+s.table+" WHERE id IN ("+strings.Join(keys, ",")+")")
		for _, r := range rows {
			tokens[r.Text(0)] = r.Number(1)
		}
	}
	switch {
	case number(err) != 0:
		return c.undoTries(ctx, granted, err)
	case err != nil:
		return err
	}
	for _, op := range granted {
		token := tokens[string(op.Key)]
		if token >= 1 && token <= driver.MaxToken {
			op.Token = uint64(token)
			continue
		}
		why := fmt.Errorf("%w: the table of fencing tokens gives %d, which is no token: was the row deleted, or is the server's clock wrong?", driver.ErrRefused, token)
		if err := c.undoTries(ctx, []*session.Op{op}, why); err != nil {
			return err
		}
	}
	return nil
}

// drawForPermit draws the token of a permit from the row of all permits of the name. So later grants have greater tokens, whichever permit they get.
// The permit's own row records its holder.
func (c *conn) drawForPermit(ctx context.Context, op *session.Op) error {
	if err := c.draw(ctx, []*session.Op{op}); err != nil || !op.OK || c.server.o.NoTokens {
		return err
	}
	_, err := c.write(ctx, []string{c.fenceRow(op.Slot, fmt.Sprint(op.Token), op)}, "VALUES(token)")
	if number(err) != 0 {
		return c.undoTries(ctx, []*session.Op{op}, err)
	}
	return err
}

// fenceRow is the row of key for the claim of op. token is SQL.
func (c *conn) fenceRow(key session.Key, token string, op *session.Op) string {
	return fmt.Sprintf("(%s,%s,%s,%s,%d,'%s',NOW())", literal(key), token, binary(op.Name), binary(op.Owner), c.thread, c.marker)
}

// write writes rows, and returns the last token that was drawn. token is the SQL of the token where the table has a row already.
func (c *conn) write(ctx context.Context, rows []string, token string) (last int64, err error) {
	query := c.briefly + "INSERT INTO " + c.server.table + " (id,token,name,owner,session,marker,at) VALUES " + strings.Join(rows, ",") +
		" ON DUPLICATE KEY UPDATE token=" + token + ",name=VALUES(name),owner=VALUES(owner),session=VALUES(session),marker=VALUES(marker),at=VALUES(at)"
	for range drawAttempts {
		var result sql.Result
		if result, err = c.ExecContext(ctx, query); err == nil {
			return result.LastInsertId()
		}
		switch number(err) {
		case errDeadlock:
		case errNoTable: // it was dropped
			if err := c.prepareTable(ctx); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
	return 0, err
}

// prepareTable creates the table of fencing tokens if it is missing, and otherwise deletes some of the oldest rows. If another session has locked the
// table, that is no error yet: nothing is drawn.
func (c *conn) prepareTable(ctx context.Context) error {
	err := c.prune(ctx)
	if number(err) == errNoTable {
		err = c.exec(ctx, fmt.Sprintf(createFence, c.server.table))
	}
	if n := number(err); n == errRowLockWait || n == errDeadlock || n == errTooLong {
		return nil
	}
	return err
}

// prune deletes some of the oldest rows. Rows of held locks stay: Break counts a session's locks by them. So do tokens ahead of the clock.
func (c *conn) prune(ctx context.Context) error {
	return c.exec(ctx, c.briefly+fmt.Sprintf("DELETE FROM %s WHERE at < NOW() - INTERVAL %d HOUR AND token < %s AND IS_FREE_LOCK(id) LIMIT %d",
		c.server.table, int(keepRows.Hours()), clock, pruneRows))
}
