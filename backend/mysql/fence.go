package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	lockdriver "github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

const (
	// keepRows is for how long the row of a name that nobody takes is kept.
	keepRows = 7 * 24 * time.Hour
	// pruneRows is how many rows at most are deleted at once, and pruneEvery after how many tokens that is done again.
	pruneRows  = 1000
	pruneEvery = 1000
	// drawAttempts is how often a token is drawn where the server undoes it for the sake of another (a deadlock among new rows).
	drawAttempts = 3
)

// clock is the server's in microseconds. Our sessions count in UTC, where no hour comes twice.
const clock = "CAST(UNIX_TIMESTAMP(NOW(6))*1000000 AS UNSIGNED)"

// createFence makes the table. A row is what is known of the last claim of a name: its token, who made it, and on which session.
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

// draw draws the tokens of locks that this session has just taken. Those of which that fails are given back. A token is the row's before and one more,
// or the server's clock if that is ahead, so that tokens rise also where rows were pruned, or were lost with the data.
func (c *conn) draw(won []*session.Op) error {
	s := c.server
	if s.o.NoTokens || len(won) == 0 {
		return nil
	}
	var insert strings.Builder
	fmt.Fprintf(&insert, "INSERT INTO %s (id,token,name,owner,session,marker,at) VALUES ", s.table)
	for i, op := range won {
		if i > 0 {
			insert.WriteByte(',')
		}
		fmt.Fprintf(&insert, "(%s,LAST_INSERT_ID(%s),%s,%s,%d,'%s',NOW())",
			literal(op.Key), clock, binary(op.Name), binary(op.Owner), c.thread, c.marker)
	}
	insert.WriteString(" ON DUPLICATE KEY UPDATE token=LAST_INSERT_ID(GREATEST(token+1," + clock + "))," +
		"name=VALUES(name),owner=VALUES(owner),session=VALUES(session),marker=VALUES(marker),at=VALUES(at)")
	var last int64
	for attempt := 1; ; attempt++ {
		result, err := c.sql.ExecContext(context.Background(), insert.String(), nil)
		switch n := number(err); {
		case err == nil:
			if last, err = result.LastInsertId(); err != nil {
				return err
			}
		case n == errDeadlock && attempt < drawAttempts:
			continue
		case n == errNoTable && attempt < drawAttempts: // somebody has dropped it
			if err := c.prepareTable(); err != nil && number(err) == 0 {
				return err
			}
			continue
		case n != 0:
			return c.giveBack(won, err)
		default:
			return err
		}
		break
	}
	c.drawn += len(won)
	if len(won) == 1 {
		return c.drew(won[0], last)
	}
	return c.readTokens(won)
}

// readTokens reads the tokens of several locks, which nobody else can change while we have those.
func (c *conn) readTokens(won []*session.Op) error {
	ops := make(map[session.Key]*session.Op, len(won))
	var keys []string
	for _, op := range won {
		ops[op.Key] = op
		keys = append(keys, literal(op.Key))
	}
	rows, err := c.rows(fmt.Sprintf("SELECT id,token FROM %s WHERE id IN (%s)", c.server.table, strings.Join(keys, ",")))
	if number(err) != 0 {
		return c.giveBack(won, err)
	}
	if err != nil {
		return err
	}
	for _, row := range rows {
		id, _ := row[0].(string)
		if op := ops[session.Key(id)]; op != nil {
			if err := c.drew(op, asInt(row[1])); err != nil {
				return err
			}
		}
	}
	for _, op := range won {
		if op.Token == 0 && op.Err == nil {
			return c.giveBack(won, fmt.Errorf("%w: the row of its fencing token is gone", lockdriver.ErrUnavailable))
		}
	}
	return nil
}

// drew sets the token of op.
func (c *conn) drew(op *session.Op, token int64) error {
	if token < 1 || token > lockdriver.MaxToken {
		return c.giveBack([]*session.Op{op}, fmt.Errorf("%w: the table of fencing tokens gives %d, which is no token: is the server's clock right?",
			lockdriver.ErrRefused, token))
	}
	op.Token = uint64(token)
	return nil
}

// prune deletes rows of names that nobody has taken for long, now and then, when somebody has just got an answer.
func (c *conn) prune() {
	if !c.pruning.Load() {
		return
	}
	c.drawn = 0
	c.watchdog.Reset(c.silence)
	if _, err := c.sql.ExecContext(context.Background(), c.server.pruning(), nil); err != nil && number(err) == 0 {
		c.Close()
	}
	c.watchdog.Stop()
	c.pruning.Store(false)
}

// pruning is the statement that deletes some of the oldest rows. Those of locks that are held stay: Break counts by them what a session has.
func (s *server) pruning() string {
	return fmt.Sprintf("DELETE FROM %s WHERE at < NOW() - INTERVAL %d HOUR AND IS_FREE_LOCK(id) LIMIT %d", s.table, int(keepRows.Hours()), pruneRows)
}
