package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	lockdriver "github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// facts are variables of the server by their names, as far as it has them, and its version.
type facts map[string]string

// wanted are the variables that say whether a server can hold locks.
var wanted = []string{
	"read_only", "super_read_only", "innodb_read_only", "wsrep_on", "group_replication_group_name",
	"innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog",
}

// learn asks the server for what it is.
func (c *conn) learn() (facts, error) {
	row, err := c.row("SELECT VERSION()")
	if err != nil {
		return nil, err
	}
	version, _ := row[0].(string)
	known := facts{"version": version}
	if err := known.refuseVersion(); err != nil {
		return nil, err // before it is asked what it does not understand
	}
	rows, err := c.rows("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('" + strings.Join(wanted, "','") + "')")
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		name, _ := row[0].(string)
		known[name], _ = row[1].(string)
	}
	return known, nil
}

func (f facts) isMariaDB() bool { return strings.Contains(f["version"], "MariaDB") }

func (f facts) isOn(name string) bool { return f[name] == "ON" || f[name] == "1" }

// Oldest versions: the oldest that were maintained when this was written. What is needed came sooner: several locks for one session with MariaDB
// 10.0.2 and MySQL 5.7.5.
var oldestMariaDB, oldestMySQL = [2]int{10, 5}, [2]int{8, 0}

func (f facts) refuseVersion() error {
	text := strings.TrimPrefix(f["version"], "5.5.5-") // what MariaDB put before its own for replicas of MySQL
	name, oldest := "MySQL", oldestMySQL
	if f.isMariaDB() {
		name, oldest = "MariaDB", oldestMariaDB
	}
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return fmt.Errorf("%w: the server says that its version is %q, which is none", lockdriver.ErrRefused, f["version"])
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(strings.TrimRight(parts[1], "-abcdefghijklmnopqrstuvwxyz"))
	if err1 != nil || err2 != nil {
		return fmt.Errorf("%w: the server says that its version is %q, which is none", lockdriver.ErrRefused, f["version"])
	}
	if major < oldest[0] || major == oldest[0] && minor < oldest[1] {
		return fmt.Errorf("%w: the server is %s %d.%d; %d.%d or newer is needed", lockdriver.ErrRefused, name, major, minor, oldest[0], oldest[1])
	}
	return nil
}

// refuse says why this server cannot hold locks.
func (f facts) refuse() error {
	why := ""
	switch {
	case f.isOn("wsrep_on"):
		why = "the server is a node of a Galera cluster (wsrep_on), and GET_LOCK locks on one node alone: two clients would hold the same lock"
	case f["group_replication_group_name"] != "":
		why = "the server is a member of a replication group, and GET_LOCK locks on one member alone: two clients would hold the same lock"
	case f.isOn("read_only") || f.isOn("super_read_only") || f.isOn("innodb_read_only"):
		why = "the server is read-only, as a replica is: use the primary"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", lockdriver.ErrRefused, why)
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]lockdriver.Notice, error) {
	c, known, err := b.server.dial(ctx, "", nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if !b.server.o.NoTokens {
		if err := c.tryTable(ctx); err != nil {
			return nil, err
		}
	}
	var notices []lockdriver.Notice
	switch flush, sync := known["innodb_flush_log_at_trx_commit"], known["sync_binlog"]; {
	case b.server.o.NoTokens || flush == "1" && (!known.isOn("log_bin") || sync == "1"):
	case flush == "1": // what the binary log does not have is rolled back after a crash
		notices = append(notices, lockdriver.Notice{ID: "durability",
			Text: "The server does not sync commits to disk (log_bin is on and sync_binlog is " + sync + "): after a crash the order of fencing " +
				"tokens rests on its clock.",
			Remedy: "Set sync_binlog to 1."})
	case flush == "":
		notices = append(notices, lockdriver.Notice{ID: "durability", Unknown: true,
			Text:   "The server does not say whether it syncs commits to disk, without which fencing tokens rest on its clock after a crash.",
			Remedy: "Look at innodb_flush_log_at_trx_commit."})
	default:
		notices = append(notices, lockdriver.Notice{ID: "durability",
			Text: "The server does not sync commits to disk (innodb_flush_log_at_trx_commit is " + flush + "): after a crash the order of fencing " +
				"tokens rests on its clock.",
			Remedy: "Set it to 1, and sync_binlog too where there is a binary log."})
	}
	if err := c.learnLoad(ctx, known); err != nil {
		return nil, err
	}
	notices = append(notices, judgeConnections(known, 1+b.server.o.Blockers)...)
	return append(notices, judgeReplication(known)...), nil
}

// learnLoad adds to known how many connections are in use and how many replicas are connected. MariaDB counts its replicas; MySQL lists
// their threads, to users who may see them.
func (c *conn) learnLoad(ctx context.Context, known facts) error {
	queries := []string{
		"SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected','Slaves_connected','Slaves_running','Slave_running')",
		"SELECT 'user_connections',@@SESSION.max_user_connections UNION ALL SELECT 'max_connections',@@GLOBAL.max_connections",
	}
	if !known.isMariaDB() && known.isOn("log_bin") {
		queries = append(queries, "SELECT 'slaves_connected',IF(COUNT(*)>0 OR (SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES "+
			"WHERE PRIVILEGE_TYPE='PROCESS')>0,COUNT(*),'') FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
	}
	for _, query := range queries {
		rows, err := c.put(ctx, query)
		if err != nil && number(err) == 0 {
			return err
		}
		for _, row := range rows { // none where the server refuses to tell
			known[strings.ToLower(text(row[0]))] = value(row[1])
		}
	}
	return nil
}

// value returns a column as text, whatever its type.
func value(v sqldriver.Value) string {
	if s, ok := v.(string); ok || v == nil {
		return s
	}
	return fmt.Sprint(v)
}

func judgeConnections(known facts, need int) []lockdriver.Notice {
	used, _ := strconv.Atoi(known["threads_connected"])
	limit, _ := strconv.Atoi(known["max_connections"])
	own, _ := strconv.Atoi(known["user_connections"])
	notices := notice.Connections(used, limit, need)
	if own > 0 && own < 2*need {
		notices = append(notices, lockdriver.Notice{ID: "user-connections",
			Text: fmt.Sprintf("This account may have %d connections at once (max_user_connections), and one lockport client uses up to %d: "+
				"a second client finds none left, and a client that loses its own gets no other.", own, need),
			Remedy: "ALTER USER … WITH MAX_USER_CONNECTIONS 0, or allow enough for every client."})
	}
	return notices
}

func judgeReplication(known facts) (notices []lockdriver.Notice) {
	replicas, err := strconv.Atoi(known["slaves_connected"])
	running, _ := strconv.Atoi(known["slaves_running"])
	switch {
	case replicas > 0:
		notices = append(notices, lockdriver.Notice{ID: "replication",
			Text: fmt.Sprintf("The server has %d replica(s), which know nothing of GET_LOCK. One that is promoted grants locks that are held here; "+
				"while this server lives cut off, both grant.", replicas),
			Remedy: "Stop the old primary before another is promoted, and check fencing tokens where it matters; etcd and ZooKeeper keep locks across a fail-over."})
	case err != nil && known.isOn("log_bin"):
		notices = append(notices, lockdriver.Notice{ID: "replication", Unknown: true,
			Text:   "The server writes a binary log and does not tell whether it has replicas. GET_LOCK is not replicated: a promoted replica grants locks that are held here.",
			Remedy: "GRANT PROCESS, or look yourself (SHOW REPLICAS)."})
	}
	if running > 0 || known["slave_running"] == "ON" {
		notices = append(notices, lockdriver.Notice{ID: "replica",
			Text:   "This server is a replica that accepts writes: locks taken here exclude nobody on its primary.",
			Remedy: "Use the primary for all locks, and set read_only on replicas."})
	}
	return notices
}

// tryTable makes sure that the user may read and write the table, without leaving anything there.
func (c *conn) tryTable(ctx context.Context) error {
	table := c.server.table
	for _, query := range []string{
		"SELECT id,token,name,owner,session,marker,at FROM " + table + " LIMIT 0",
		"INSERT INTO " + table + " (id,token,name,owner,session,marker,at) SELECT '',1,'','',0,'',NOW() FROM DUAL WHERE 1=0 " +
			"ON DUPLICATE KEY UPDATE token=1",
		"DELETE FROM " + table + " WHERE id='' AND 1=0",
	} {
		if _, err := c.put(ctx, query); err != nil {
			return err
		}
	}
	return nil
}
