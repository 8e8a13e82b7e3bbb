package mysql

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/session"
)

// refused requires that Check and the first claim refuse a server with why, in one line, without a password.
func refused(t *testing.T, rawURL, text string) {
	_, err := lockport.Open(t.Context(), rawURL)
	peer.SaysOneLine(t, err, lockport.ErrRefused, text)
	require.NotContains(t, err.Error(), ":pw")
	b := peer.Opened(t, rawURL)
	_, err = peer.Client(t, b, lockport.TTL(b.Capabilities().FixedTTL)).TryAcquire(t.Context(), newName())
	peer.SaysOneLine(t, err, lockport.ErrRefused, text)
}

// TestCheck: each row changes the state that the rows before have left.
func TestCheck(t *testing.T) {
	servers.SkipOnMySQL(t) // it does not say whether it has replicas
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{Config: []string{"innodb-flush-log-at-trx-commit=1", "log-bin=bin", "server-id=1", "sync-binlog=1"}})
	admin := adminOf(t, m)
	for _, v := range []struct{ set, params, want string }{
		{"SET GLOBAL max_connections=12", "", ""},
		{"SET GLOBAL innodb_flush_log_at_trx_commit=2", "", "durability"},
		{"SET GLOBAL innodb_flush_log_at_trx_commit=2", "?tokens=false", ""},
		{"SET GLOBAL innodb_flush_log_at_trx_commit=1, sync_binlog=0", "", "durability"}, // a crash rolls back what the binary log lacks
		{"SET GLOBAL sync_binlog=1", "?blockers=11", "connections"},
	} {
		exec(t, admin, "%s", v.set)
		require.Equal(t, v.want, strings.Join(peer.Notices(t, m.URL()+v.params), ","), v)
	}
}

func TestCheckReplication(t *testing.T) {
	servers.SkipOnMySQL(t)
	start := func(id string) *servers.MariaDB {
		return servers.NeedMariaDB(t, servers.MariaDBOptions{Config: []string{"innodb-flush-log-at-trx-commit=1", "log-bin=bin", "server-id=" + id, "sync-binlog=1"}})
	}
	primary, replica := start("1"), start("2")
	cfg := configFor(t, primary.AdminDSN())
	host, port, _ := strings.Cut(cfg.Addr, ":")
	admin := adminOf(t, replica)
	exec(t, admin, "CHANGE MASTER TO MASTER_HOST='%s',MASTER_PORT=%s,MASTER_USER='%s',MASTER_PASSWORD='%s',MASTER_USE_GTID=no",
		host, port, cfg.User, cfg.Passwd)
	exec(t, admin, "START SLAVE")
	require.Eventually(t, func() bool {
		of, err1 := peer.Check(t, primary.URL())
		on, err2 := peer.Check(t, replica.URL())
		return err1 == nil && err2 == nil && len(of) == 1 && of[0].ID == "replication" && len(on) == 1 && on[0].ID == "replica"
	}, peer.Soon, 50*time.Millisecond)
}

func TestJudges(t *testing.T) {
	for _, v := range []struct {
		judge func(facts) []driver.Notice
		known facts
		want  []string
	}{
		{judgeReplication, facts{"slaves_connected": "0", "log_bin": "ON"}, nil},
		{judgeReplication, facts{"slaves_connected": "2", "log_bin": "ON"}, []string{"replication"}},
		{judgeReplication, facts{"log_bin": "ON"}, []string{"replication?"}}, // MySQL
		{judgeReplication, facts{"log_bin": "OFF"}, nil},
		{judgeReplication, facts{"slaves_connected": "0", "slaves_running": "1"}, []string{"replica"}},
		{judgeTransport, facts{"ssl_cipher": "", "client": "192.0.2.1"}, []string{"password-in-the-clear"}},
		{judgeTransport, facts{"ssl_cipher": "", "client": "localhost"}, nil},
		{judgeTransport, facts{"ssl_cipher": "", "client": "::1"}, nil},
		{judgeTransport, facts{"ssl_cipher": "TLS_AES_256_GCM_SHA384", "client": "192.0.2.1"}, nil},
		{judgeTransport, facts{"client": "192.0.2.1"}, nil},
	} {
		require.Equal(t, v.want, peer.IDs(v.judge(v.known)), "%v", v.known)
	}
}

func TestLogins(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	refused(t, m.UserURL("lockport", "secret"), "the password is wrong")
	refused(t, m.UserURL("nobody", "secret"), "the user name or")
	admin := adminOf(t, m)
	exec(t, admin, "CREATE USER reader IDENTIFIED BY 'secret'")
	refused(t, m.UserURL("reader", "secret"), "may not use this database")
	exec(t, admin, "GRANT SELECT ON lockport.* TO reader")
	exec(t, admin, "ALTER USER reader REQUIRE SSL")
	refused(t, m.UserURL("reader", "secret"), "tls=true")
	exec(t, admin, "ALTER USER reader REQUIRE NONE")
	refused(t, m.UserURL("reader", "secret"), "may not use the table of fencing tokens")
	exec(t, admin, "GRANT ALL ON *.* TO reader")
	refused(t, "mysql://reader:secret@"+m.Addr()+"/nowhere", "no such database")
	refused(t, "mysql://reader:secret@"+m.Addr()+"/mysql?table=user", "")

	peer.SaysOneLine(t, peer.ErrOf(newClient(t, strings.Replace(m.AdminDSN(), "/lockport", "/", 1), Options{}).TryAcquire(t.Context(), newName())), lockport.ErrRefused, "select no database")

	// Without tokens, neither privileges nor a database are needed.
	exec(t, admin, "CREATE USER locker IDENTIFIED BY 'secret'")
	peer.Notices(t, "mysql://locker:secret@"+m.Addr()+"/?tokens=false")

	// A user who may not create the table can use it.
	exec(t, admin, createFence, "lockport_fence")
	exec(t, admin, "CREATE USER worker IDENTIFIED BY 'secret'")
	exec(t, admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON lockport.lockport_fence TO worker")
	peer.Notices(t, m.UserURL("worker", "secret"))
	c := peer.Client(t, peer.Opened(t, m.UserURL("worker", "secret")))
	require.NoError(t, peer.Holds(t, c, newName()).Release(t.Context()))
}

func TestReadOnlyServer(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	admin, name := adminOf(t, m), newName()
	for _, rights := range []string{"USAGE", "ALL"} { // with all, it may write nevertheless
		exec(t, admin, "GRANT %s ON *.* TO lockport@'%%'", rights)
		a, b, idle := newClient(t, m.DSN(), Options{}), newClient(t, m.DSN(), Options{}), newClient(t, m.DSN(), Options{})
		require.NoError(t, peer.Holds(t, idle, newName()).Release(t.Context()))
		held, got := peer.Holds(t, a, name), peer.Acquiring(t, b, name)
		require.Eventually(t, func() bool { return blockedIn(t, admin) != 0 }, peer.Soon, time.Millisecond)
		exec(t, admin, "SET GLOBAL read_only=1")
		for range 2 { // on its session, then on a new one
			require.ErrorIs(t, peer.ErrOf(idle.TryAcquire(t.Context(), newName())), lockport.ErrUnavailable)
		}
		peer.Refuses(t, m.URL(), driver.ErrRefused, "splits reads")
		peer.Eventually(t, held.Lost())
		require.Never(t, func() bool { return len(got) > 0 }, time.Second, 10*time.Millisecond, "granted by a server that was replaced")
		exec(t, admin, "SET GLOBAL read_only=0")
		require.NoError(t, peer.Eventually(t, got).Release(t.Context()))
		require.NoError(t, peer.Holds(t, idle, name, lockport.Permits(2)).Release(t.Context()))
		exec(t, admin, "SET GLOBAL read_only=1")
		require.ErrorIs(t, peer.ErrOf(idle.TryAcquire(t.Context(), name, lockport.Permits(2))), lockport.ErrUnavailable)
		exec(t, admin, "SET GLOBAL read_only=0")
	}
}

// TestOldServers: the second one claims a new version, but is old. The third ends silent sessions before the TTL.
func TestOldServers(t *testing.T) {
	servers.SkipOnMySQL(t)
	const old, lies, short = "version=5.5.5-10.1.48-MariaDB", "version=8.4.0", "maximum-wait-timeout=10"
	for setting, why := range map[string]string{old: "10.5 or newer", lies: "is it MariaDB or MySQL?", short: "wait_timeout to 10 s instead of 15"} {
		refused(t, servers.NeedMariaDB(t, servers.MariaDBOptions{Config: []string{setting}}).URL(), why)
	}
}

func TestFacts(t *testing.T) {
	for _, version := range []string{"8.0.36", "9.1.0", "8.4.3-commercial", "10.5.0-MariaDB", "5.5.5-10.11.6-MariaDB-1:10.11.6+maria~ubu", "11.8.2-MariaDB", "8.0.mysql"} {
		require.NoError(t, facts{"version": version}.refuseVersion(), version)
	}
	for _, version := range []string{"5.7.44", "10.4.9-MariaDB", "5.5.5-10.4.9-MariaDB", "x.y", "8", "", "8.0.11-TiDB-v8.5.1", "8.0.30-Vitess"} {
		require.ErrorIs(t, facts{"version": version}.refuseVersion(), driver.ErrRefused, version)
	}
	for _, f := range []facts{
		{"wsrep_on": "ON"}, {"wsrep_provider": "/usr/lib/galera4/libgalera_smm.so"}, {"ndb_connectstring": "node:1186"}, {"group_replication_group_name": "aaaa"}, {"read_only": "ON"}, {"read_only": "NO_LOCK"}, {"super_read_only": "1"}, {"innodb_read_only": "ON"},
	} {
		require.ErrorIs(t, session.Refuse(f.refuseRole()), driver.ErrRefused, f)
	}
	require.NoError(t, facts{"wsrep_on": "OFF", "wsrep_provider": "none", "ndb_connectstring": "", "read_only": "OFF", "group_replication_group_name": ""}.refuseRole())
}
