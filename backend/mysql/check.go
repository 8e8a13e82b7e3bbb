package mysql

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
	"github.com/lockport/lockport/internal/session"
)

// facts are the server variables it reveals, by lower-case name.
type facts map[string]string

func (f facts) isMariaDB() bool { return strings.Contains(f["version"], "MariaDB") }

// isOn counts other values than OFF too: MariaDB 12 has NO_LOCK for read_only.
func (f facts) isOn(name string) bool { return f[name] != "" && f[name] != "OFF" && f[name] != "0" }

// ask adds the names and values that a query returns.
func (f facts) ask(ctx context.Context, l link, query string) error {
	rows, err := l.rows(ctx, query)
	for _, r := range rows {
		f[strings.ToLower(r.Text(0))] = r.Text(1)
	}
	return err
}

// readFacts reads facts, and refuses servers that cannot hold locks.
func (l link) readFacts(ctx context.Context) (facts, error) {
	known := facts{}
	if err := l.exec(ctx, "SET SESSION sql_select_limit=18446744073709551615,SESSION sql_big_selects=1"); err != nil { // these limits apply even to SHOW
		return nil, err
	}
	err := known.ask(ctx, l, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version','read_only','super_read_only','innodb_read_only','wsrep_on','wsrep_provider',"+
		"'group_replication_group_name','ndb_connectstring','innodb_flush_log_at_trx_commit','log_bin','sync_binlog','max_connections','thread_handling')")
	return known, cmp.Or(err, known.refuseVersion(), known.refuseRole())
}

// refuseVersion refuses versions that were unmaintained when this was written. Several locks per session are older: they came with MariaDB 10.0.2 and
// MySQL 5.7.5.
func (f facts) refuseVersion() error {
	for _, other := range []string{"TiDB", "Vitess"} {
		if strings.Contains(f["version"], other) {
			return fmt.Errorf("%w: the server is %s, whose GET_LOCK can end without notice; use another lock server", driver.ErrRefused, other)
		}
	}
	name, oldest := "MySQL", 8_00
	if f.isMariaDB() {
		name, oldest = "MariaDB", 10_05
	}
	var major, minor int // MariaDB once prefixed its own for the sake of MySQL replicas
	n, _ := fmt.Sscanf(strings.TrimPrefix(f["version"], "5.5.5-"), "%d.%d", &major, &minor)
	if n < 2 || 100*major+minor < oldest {
		return fmt.Errorf("%w: the server is %s %q; %d.%d or newer is needed", driver.ErrRefused, name, f["version"], oldest/100, oldest%100)
	}
	return nil
}

// refuseRole refuses servers whose locks exclude nobody elsewhere.
func (f facts) refuseRole() error {
	_, known := f["wsrep_on"] // it is not global in Percona XtraDB Cluster
	provider := f["wsrep_provider"]
	switch {
	case f.isOn("wsrep_on"), !known && provider != "" && provider != "none", f["group_replication_group_name"] != "", f["ndb_connectstring"] != "":
		return fmt.Errorf("%w: the server is a node of a cluster (Galera, NDB) or a member of a replication group, where GET_LOCK locks on one member alone: "+
			"two clients would hold the same lock; use another lock server, or table+mysql:// on one member", driver.ErrRefused)
	case f.isOn("read_only"), f.isOn("super_read_only"), f.isOn("innodb_read_only"):
		return session.ErrReadOnly
	}
	return nil
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) (notices []driver.Notice, err error) {
	defer func() { err = session.Refuse(err) }()
	s := b.server
	c, known, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	queries := []string{
		"SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected','Slaves_connected','Slaves_running')",
		"SHOW SESSION STATUS WHERE Variable_name='Ssl_cipher'",
		"SELECT 'client',SUBSTRING_INDEX(USER(),'@',-1)",
	}
	for _, query := range queries {
		if err := known.ask(ctx, c.link, query); err != nil && number(err) == 0 { // otherwise the server refuses to tell
			return nil, classify(ctx, err)
		}
	}
	if !s.o.NoTokens {
		if err := c.tryTable(ctx); err != nil {
			return nil, classify(ctx, err)
		}
		notices = judgeDurability(known)
	}
	used, _ := strconv.Atoi(known["threads_connected"])
	limit, _ := strconv.Atoi(known["max_connections"])
	notices = append(notices, notice.Connections(used, limit, 1+s.o.Blockers)...)
	notices = append(notices, judgeReplication(known)...)
	return append(notices, judgeTransport(known)...), nil
}

// tryTable checks that the user may read and write the table. It writes no row.
func (c *conn) tryTable(ctx context.Context) error {
	for _, query := range []string{
		"SELECT id,token,name,owner,session,marker,at FROM %s LIMIT 0",
		"INSERT INTO %s (id,token,name,owner,session,marker,at) SELECT '',1,'','',0,'',NOW() FROM DUAL WHERE 1=0 ON DUPLICATE KEY UPDATE token=1",
		"DELETE FROM %s WHERE id='' AND 1=0",
	} {
		if err := c.exec(ctx, fmt.Sprintf(query, c.server.table)); err != nil {
			return err
		}
	}
	return nil
}

func judgeDurability(known facts) []driver.Notice {
	flush, sync := known["innodb_flush_log_at_trx_commit"], known["sync_binlog"]
	if flush == "1" && (sync == "1" || !known.isOn("log_bin")) { // a crash rolls back what the binary log lacks
		return nil
	}
	return []driver.Notice{{ID: "durability",
		Text: fmt.Sprintf("The server does not sync commits to disk (innodb_flush_log_at_trx_commit is %s, sync_binlog is %s): "+
			"after a crash the order of fencing tokens depends on the server's clock.", flush, sync),
		Remedy: "Set innodb_flush_log_at_trx_commit to 1, and sync_binlog too where there is a binary log."}}
}

func judgeReplication(known facts) []driver.Notice {
	replicas, err := strconv.Atoi(known["slaves_connected"])
	running, _ := strconv.Atoi(known["slaves_running"])
	notices := notice.Replication(replicas, "GET_LOCK")
	if err != nil && known.isOn("log_bin") { // MySQL does not count them
		notices = append(notices, driver.Notice{ID: "replication", Unknown: true,
			Text:   "The server writes a binary log, and does not say whether it has replicas or is one. GET_LOCK is not replicated: a promoted replica grants locks that are held here.",
			Remedy: "Check it yourself (SHOW REPLICAS, SHOW REPLICA STATUS)."})
	}
	if running > 0 {
		notices = append(notices, driver.Notice{ID: "replica",
			Text:   "This server is a replica that accepts writes: locks taken here exclude nobody on its primary.",
			Remedy: "Use the primary for all locks, and set read_only on replicas."})
	}
	return notices
}

// judgeTransport warns of a connection over the network without TLS.
func judgeTransport(known facts) []driver.Notice {
	if cipher, ok := known["ssl_cipher"]; !ok || cipher != "" {
		return nil
	}
	return notice.InTheClear(known["client"])
}
