package main

import (
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// foreign are holders that are no clients of lockport: the URL at which they hold the lock with the name, what status says of them, and how break ends.
var foreign = map[string]func(t *testing.T) (url, name, holder string, breaks int){
	"redis: redis-py": func(t *testing.T) (string, string, string, int) {
		server := servers.SharedRedis(t)
		host, port, _ := strings.Cut(server.Addr(), ":")
		out, err := exec.Command(servers.NeedPythonRedis(t), "-c", `import sys, redis
print(redis.Redis(host=sys.argv[1], port=int(sys.argv[2])).lock("lockport:theirs", timeout=60).acquire())`, host, port).CombinedOutput()
		require.NoError(t, err, string(out))
		value, err := server.Do(t.Context(), "GET", "lockport:theirs")
		require.NoError(t, err)
		return server.URL(), "theirs", value.(string), 0
	},
	"redis: SET for ever": func(t *testing.T) (string, string, string, int) {
		server := servers.SharedRedis(t)
		_, err := server.Do(t.Context(), "SET", "lockport:plain", "me, \x1b[31mthe shell")
		require.NoError(t, err)
		return server.URL(), "plain", `"me, \x1b[31mthe shell"`, 0
	},
	"redis: a hash, as Redisson's": func(t *testing.T) (string, string, string, int) {
		server := servers.SharedRedis(t)
		_, err := server.Do(t.Context(), "HSET", "lockport:hash", "thread", "1")
		require.NoError(t, err)
		return server.URL(), "hash", "(a foreign value that is no string)", 0
	},
	"etcd: etcdctl": func(t *testing.T) (string, string, string, int) {
		etcdctl := servers.NeedProgram(t, "etcdctl", "etcd")
		server := servers.SharedEtcd(t)
		cmd := exec.CommandContext(t.Context(), etcdctl, "--endpoints", server.Addr(), "lock", "lockport/theirs")
		cmd.Env = append(cmd.Environ(), "ETCDCTL_API=3")
		var said buffer
		cmd.Stdout = &said
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		eventually(t, func() bool { return strings.Contains(said.String(), "\n") }, "etcdctl does not get its lock")
		return server.URL(), "theirs", strings.TrimPrefix(strings.TrimSpace(said.String()), "lockport/theirs/"), 0
	},
	"postgres: an exact key": func(t *testing.T) (string, string, string, int) {
		server := servers.SharedPostgres(t)
		conn, err := pgx.Connect(t.Context(), server.URL()+"?application_name=psql")
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		_, err = conn.Exec(t.Context(), "SELECT pg_advisory_lock(-42)")
		require.NoError(t, err)
		return server.URL() + "?exact=true", "-42", fmt.Sprintf("pid %d (psql)", conn.PgConn().PID()), 0
	},
	"mysql: an exact key": func(t *testing.T) (string, string, string, int) {
		server := servers.SharedMariaDB(t)
		db, err := sql.Open("mysql", server.DSN())
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(1)
		var id, got int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT CONNECTION_ID(), GET_LOCK('theirs', 0)").Scan(&id, &got))
		require.Equal(t, 1, got)
		return server.URL() + "?exact=true", "theirs", fmt.Sprint("connection:", id), 69 // what else that session has is not known
	},
}

func testForeignHolders(t *testing.T, server string) {
	for what, hold := range foreign {
		if scheme(what) != scheme(server) {
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url, name, holder, breaks := hold(t)
			stdout, _ := ran(t, 0, url, "status", "--", name)
			require.Contains(t, stdout, "foreign: "+holder+"\n")
			st := statusJSON(t, url, "--", name)[0]
			require.True(t, st.Held && st.Foreign)
			require.Empty(t, st.Host+st.Label)
			require.Zero(t, st.Token)
			listed := slices.ContainsFunc(statusJSON(t, url), func(l lockJSON) bool { return l.Name == name && l.Foreign })
			require.Equal(t, scheme(what) != "mysql", listed, "MySQL's names are in no table of ours")
			_, stderr := ran(t, breaks, url, "break", "--yes", "--", name)
			if breaks != 0 {
				require.Contains(t, stderr, "is not known; if that must be, give --all-of-session")
				_, stderr = ran(t, 0, url, "break", "--yes", "--all-of-session", "--", name)
			}
			require.Contains(t, stderr, "it may be at work still")
			ran(t, 1, url, "status", "--", name)
		})
	}
}
