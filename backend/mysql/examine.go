package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"

	lockdriver "github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
	"github.com/lockport/lockport/internal/session"
)

var _ lockdriver.Examiner = (*Backend)(nil)

// Examine implements driver.Examiner, on the session that holds locks. The TTL is the session's, whatever is asked for.
func (b *Backend) Examine(ctx context.Context, _ time.Duration) (lockdriver.Examination, error) {
	found, err := b.examine(ctx)
	if err != nil {
		return lockdriver.Examination{}, session.Harmless(err)
	}
	return found, nil
}

func (b *Backend) examine(ctx context.Context) (found lockdriver.Examination, err error) {
	found.TTL = b.server.o.TTL
	version, ahead, err := b.askClock(ctx)
	if err != nil {
		return found, err
	}
	known := facts{"version": version}
	name, plain, lines, link := "MySQL", version, maintainedMySQL, "https://www.mysql.com/support/"
	if known.isMariaDB() {
		name, plain = "MariaDB", strings.TrimPrefix(version, "5.5.5-")
		lines, link = maintainedMariaDB, "https://mariadb.org/about/#maintenance-policy"
	}
	plain, _, _ = strings.Cut(plain, "-")
	found.Server = name + " " + plain
	found.Notices = examine.EndOfLife(name, plain, time.Now(), lines, link)
	if !b.server.o.NoTokens {
		found.Notices = append(found.Notices, examine.Clock("", ahead, "where the table of fencing tokens is lost, with a fail-over say, their order rests on the server's")...)
	}
	for _, ask := range []func(context.Context, facts) ([]lockdriver.Notice, error){b.askConnections, b.askReplication} {
		notices, err := ask(ctx, known)
		if err != nil {
			return found, err
		}
		found.Notices = append(found.Notices, notices...)
	}
	return found, nil
}

// askClock asks for the version, and by how much the server's clock is ahead of ours.
func (b *Backend) askClock(ctx context.Context) (version string, ahead time.Duration, err error) {
	if _, err := b.ask(ctx, "SELECT 1"); err != nil { // once there is a session, the next question takes a round trip
		return "", 0, err
	}
	before := time.Now()
	rows, err := b.ask(ctx, "SELECT VERSION(),"+clock)
	if err != nil {
		return "", 0, err
	}
	if len(rows) != 1 {
		return "", 0, fmt.Errorf("%w: the server does not tell its version", lockdriver.ErrRefused)
	}
	return text(rows[0][0]), examine.Offset(before, time.UnixMicro(asInt(rows[0][1])), time.Now()), nil
}

// value is a column as text, whatever type it came in.
func value(v sqldriver.Value) string {
	if s, ok := v.(string); ok || v == nil {
		return s
	}
	return fmt.Sprint(v)
}

func (b *Backend) askConnections(ctx context.Context, known facts) ([]lockdriver.Notice, error) {
	for _, query := range []string{
		"SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected','Slaves_connected','Slaves_running','Slave_running')",
		"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('max_connections','log_bin')",
		"SELECT 'max_user_connections',@@SESSION.max_user_connections",
	} {
		rows, err := b.ask(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			known[strings.ToLower(text(row[0]))] = value(row[1])
		}
	}
	return judgeConnections(known, 1+b.server.o.Blockers), nil
}

func judgeConnections(known facts, need int) []lockdriver.Notice {
	used, _ := strconv.Atoi(known["threads_connected"])
	limit, _ := strconv.Atoi(known["max_connections"])
	own, _ := strconv.Atoi(known["max_user_connections"])
	notices := examine.Connections("", used, limit, need)
	if own > 0 && own < 2*need {
		notices = append(notices, lockdriver.Notice{ID: "user-connections",
			Text: fmt.Sprintf("This account may have %d connections at once (max_user_connections), and one client of lockport can have %d: "+
				"others find none left, and a client that has lost its own gets no other.", own, need),
			Remedy: "ALTER USER … WITH MAX_USER_CONNECTIONS 0, or at least the number for each client times the clients."})
	}
	return notices
}

// askReplication looks whether others replicate this server. MariaDB counts them; MySQL lists their threads, if we may see them.
func (b *Backend) askReplication(ctx context.Context, known facts) ([]lockdriver.Notice, error) {
	if !known.isMariaDB() && known.isOn("log_bin") {
		rows, err := b.ask(ctx, "SELECT COUNT(*),(SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE='PROCESS') "+
			"FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
		switch {
		case err == nil && len(rows) == 1 && (asInt(rows[0][0]) > 0 || asInt(rows[0][1]) > 0):
			known["slaves_connected"] = value(rows[0][0])
		case err != nil && number(err) == 0:
			return nil, err
		}
	}
	return judgeReplication(known), nil
}

func judgeReplication(known facts) (notices []lockdriver.Notice) {
	replicas, err := strconv.Atoi(known["slaves_connected"])
	running, _ := strconv.Atoi(known["slaves_running"])
	switch {
	case replicas > 0:
		notices = append(notices, lockdriver.Notice{ID: "replication",
			Text: fmt.Sprintf("The server has %d replica(s) connected, which know nothing of GET_LOCK: one that is promoted grants at once what is held on this server, "+
				"and as long as this one lives cut off, both grant.", replicas),
			Remedy: "See that the old primary is stopped before another is promoted (fencing), and check fencing tokens where it matters; etcd or ZooKeeper keep locks across a fail-over."})
	case err != nil && known.isOn("log_bin"):
		notices = append(notices, lockdriver.Notice{ID: "replication", Unknown: true,
			Text:   "The server does not let us see whether it has replicas (it writes a binary log): GET_LOCK is not replicated, so that a fail-over grants at once what is held.",
			Remedy: "GRANT PROCESS, or look yourself (SHOW REPLICAS)."})
	}
	if running > 0 || known["slave_running"] == "ON" {
		notices = append(notices, lockdriver.Notice{ID: "replica",
			Text: "This server is a replica that can be written to: locks taken here exclude nobody on its primary, and what is written for fencing tokens differs " +
				"from the primary's.",
			Remedy: "Use the primary for all locks, and set read_only on replicas."})
	}
	return notices
}
