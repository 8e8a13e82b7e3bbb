package mysql

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
	"github.com/lockport/lockport/internal/lab/servers"
)

// examined is what Examine finds, and the IDs of its notices, "?" behind those that are unknown. That about the version depends on what is installed.
func examined(t *testing.T, rawURL string) (driver.Examination, []string) {
	t.Helper()
	b, err := openURL(t.Context(), rawURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	found, err := b.(driver.Examiner).Examine(ctx, 0)
	require.NoError(t, err)
	return found, idsOf(t, found.Notices)
}

func idsOf(t *testing.T, notices []driver.Notice) (ids []string) {
	t.Helper()
	for _, n := range notices {
		require.NotEmpty(t, n.Text)
		require.NotEmpty(t, n.Remedy)
		id := n.ID
		if n.Unknown {
			id += "?"
		}
		if id != "end-of-life" {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestExamine(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	found, ids := examined(t, m.URL()+"?ttl=7s")
	require.Empty(t, ids)
	require.Regexp(t, `^MariaDB [0-9]+\.[0-9]+\.[0-9]+$`, found.Server)
	require.Equal(t, 7*time.Second, found.TTL)

	admin := adminOf(t, m)
	exec(t, admin, "SET GLOBAL max_connections=12")
	_, ids = examined(t, m.URL()+"?blockers=11")
	require.Equal(t, []string{"connections"}, ids)
	_, ids = examined(t, m.URL())
	require.Empty(t, ids)
	exec(t, admin, "ALTER USER lockport WITH MAX_USER_CONNECTIONS 9")
	_, ids = examined(t, m.URL())
	require.Equal(t, []string{"user-connections"}, ids)
	exec(t, admin, "ALTER USER lockport WITH MAX_USER_CONNECTIONS 10")
	_, ids = examined(t, m.URL())
	require.Empty(t, ids)

	exec(t, admin, "SET GLOBAL init_connect='SET timestamp=UNIX_TIMESTAMP(SYSDATE())-3600'")
	found, ids = examined(t, m.URL())
	require.Equal(t, []string{"clock-offset"}, ids)
	require.Contains(t, found.Notices[len(found.Notices)-1].Text, "behind")
	_, ids = examined(t, m.URL()+"?tokens=false")
	require.Empty(t, ids, "without tokens its clock does not matter")
}

func TestExamineReplication(t *testing.T) {
	settings := func(id string) map[string]string {
		return map[string]string{"log-bin": "bin", "server-id": id, "sync-binlog": "1"}
	}
	primary := servers.NeedMariaDB(t, servers.MariaDBOptions{Settings: settings("1")})
	replica := servers.NeedMariaDB(t, servers.MariaDBOptions{Settings: settings("2")})
	_, ids := examined(t, primary.URL())
	require.Empty(t, ids)
	cfg := configFor(t, primary.AdminDSN())
	host, port, err := net.SplitHostPort(cfg.Addr)
	require.NoError(t, err)
	admin := adminOf(t, replica)
	exec(t, admin, "CHANGE MASTER TO MASTER_HOST='%s',MASTER_PORT=%s,MASTER_USER='%s',MASTER_PASSWORD='%s',MASTER_USE_GTID=no",
		host, port, cfg.User, cfg.Passwd)
	exec(t, admin, "START SLAVE")
	require.Eventually(t, func() bool {
		_, of := examined(t, primary.URL())
		_, on := examined(t, replica.URL())
		return len(of) == 1 && of[0] == "replication" && len(on) == 1 && on[0] == "replica"
	}, within, 50*time.Millisecond)
}

func TestJudgeReplication(t *testing.T) {
	for _, v := range []struct {
		known facts
		want  []string
	}{
		{facts{"slaves_connected": "0", "log_bin": "ON"}, nil},
		{facts{"slaves_connected": "2", "log_bin": "ON"}, []string{"replication"}},
		{facts{"log_bin": "ON"}, []string{"replication?"}}, // MySQL, to a user without PROCESS
		{facts{"log_bin": "OFF"}, nil},
		{facts{"slaves_connected": "0", "slaves_running": "1"}, []string{"replica"}},
		{facts{"log_bin": "OFF", "slave_running": "ON"}, []string{"replica"}},
	} {
		require.Equal(t, v.want, idsOf(t, judgeReplication(v.known)), "%v", v.known)
	}
}

func TestMaintainedVersions(t *testing.T) {
	for _, lines := range [][]examine.Maintained{maintainedMySQL, maintainedMariaDB} {
		for i := 1; i < len(lines); i++ {
			require.Less(t, lines[i-1].From[0]*100+lines[i-1].From[1], lines[i].From[0]*100+lines[i].From[1])
		}
		require.True(t, lines[len(lines)-1].Until.IsZero(), "newer ones are maintained, as far as known")
	}
	now := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
	for version, ended := range map[string]bool{"10.5.8": true, "10.6.20": true, "10.11.14": false, "11.2.1": true, "11.4.5": false, "12.3.1": false, "13.0.1": false} {
		require.Equal(t, ended, len(examine.EndOfLife("MariaDB", version, now, maintainedMariaDB, "x")) > 0, version)
	}
	for version, ended := range map[string]bool{"8.0.44": true, "8.4.7": false, "8.2.0": true, "9.1.0": true, "9.7.0": false} {
		require.Equal(t, ended, len(examine.EndOfLife("MySQL", version, now, maintainedMySQL, "x")) > 0, version)
	}
}

func TestExamineIsBounded(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	b, err := openURL(t.Context(), m.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	_, err = b.(driver.Examiner).Examine(t.Context(), 0)
	require.NoError(t, err)
	require.NoError(t, m.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = b.(driver.Examiner).Examine(ctx, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, m.Kill())
	_, err = b.(driver.Examiner).Examine(t.Context(), 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NotContains(t, err.Error(), "\n")
}
