package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	lockdriver "github.com/lockport/lockport/driver"
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
	return notices, nil
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
