package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

func pgConnect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func pgValue[T any](t *testing.T, conn *pgx.Conn, sql string) T {
	t.Helper()
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&v))
	return v
}

func pgExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	p := NeedPostgres(t, PostgresOptions{Password: `p@ss'"w\`, Settings: map[string]string{"max_connections": "20"}})
	conn := pgConnect(t, p.URL())
	require.Equal(t, "lockport", pgValue[string](t, conn, "SELECT current_user || ''"))
	require.Equal(t, "lockport", pgValue[string](t, conn, "SELECT current_database() || ''"))
	require.Equal(t, "20", pgValue[string](t, conn, "SHOW max_connections"))
	require.False(t, pgValue[bool](t, conn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
	admin := pgConnect(t, p.AdminURL())
	require.True(t, pgValue[bool](t, admin, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))

	// Its processes stop together, and go on together.
	require.NoError(t, p.Freeze())
	require.NoError(t, conn.PgConn().Conn().SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	conn.PgConn().Frontend().SendQuery(&pgproto3.Query{String: "SELECT 1"})
	require.NoError(t, conn.PgConn().Frontend().Flush())
	_, err := conn.PgConn().Frontend().Receive()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, p.Thaw())
	require.Equal(t, int32(1), pgValue[int32](t, admin, "SELECT 1"))
}

func TestPostgresReplica(t *testing.T) {
	t.Parallel()
	primary := NeedPostgres(t, PostgresOptions{Settings: map[string]string{"max_connections": "30"}})
	replica := NeedPostgres(t, PostgresOptions{Primary: primary, Settings: map[string]string{"log_min_messages": "error"}})
	conn := pgConnect(t, replica.URL())
	require.True(t, pgValue[bool](t, conn, "SELECT pg_is_in_recovery()"))
	require.Equal(t, "30", pgValue[string](t, conn, "SHOW max_connections"))
	pgExec(t, pgConnect(t, primary.URL()), "CREATE TABLE copied ()")
	require.NoError(t, poll(soon(t), func() error {
		_, err := conn.Exec(t.Context(), "SELECT FROM copied")
		return err
	}))

	// They change places.
	promoted := pgConnect(t, replica.AdminURL())
	require.True(t, pgValue[bool](t, promoted, "SELECT pg_promote()"))
	pgExec(t, promoted, "CREATE TABLE made_later ()")
	require.NoError(t, primary.Follow(t.Context(), replica))
	follower := pgConnect(t, primary.AdminURL())
	require.True(t, pgValue[bool](t, follower, "SELECT pg_is_in_recovery()"))
	pgExec(t, follower, "SELECT FROM made_later")
}

func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	p := NeedPostgres(t, PostgresOptions{TLS: true})
	config, err := pgx.ParseConfig(p.URL() + "?sslmode=verify-full&sslrootcert=" + p.CAFile())
	require.NoError(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	require.True(t, pgValue[bool](t, conn, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
	require.NotNil(t, p.TLSConfig().RootCAs)
	config.TLSConfig = &tls.Config{ServerName: "127.0.0.1"}
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorContains(t, err, "unknown authority")
}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	p := NeedPostgres(t, PostgresOptions{})
	for mode, want := range map[string]string{"": "session", "transaction": "transaction"} {
		b := NeedPgBouncer(t, PgBouncerOptions{Server: p, Mode: mode})
		config, err := pgx.ParseConfig(b.URL())
		require.NoError(t, err)
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		require.Equal(t, int32(1), pgValue[int32](t, conn, "SELECT 1"))
		require.NotEqual(t, conn.PgConn().PID(), uint32(pgValue[int32](t, conn, "SELECT pg_backend_pid()")))
		require.NoError(t, conn.Close(t.Context()))
		ini, err := os.ReadFile(b.Dir() + "/pgbouncer.ini")
		require.NoError(t, err)
		require.Contains(t, string(ini), "pool_mode = "+want+"\n")
	}
}

// A replica that is given up while it copies its primary is given up at once, although the program that copies has a child of its own.
func TestPostgresReplicaGivenUp(t *testing.T) {
	primary := NeedPostgres(t, PostgresOptions{Settings: map[string]string{"wal_level": "replica"}})
	copying := func() (n int) {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			line, _ := os.ReadFile(file)
			if bytes.HasPrefix(line, []byte("pg_basebackup")) || bytes.Contains(line, []byte("/pg_basebackup\x00")) && bytes.Contains(line, []byte(primary.AdminURL())) {
				n++
			}
		}
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		replica, err := StartPostgres(ctx, PostgresOptions{Primary: primary})
		if err == nil {
			err = replica.Close()
		}
		over <- err
	}()
	for copying() < 2 {
		select {
		case err := <-over:
			require.NoError(t, err)
			t.Skip("the copy was over before it was seen")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	select {
	case err := <-over:
		require.Error(t, err)
	case <-time.After(20 * time.Second):
		require.NoError(t, primary.Kill())
		require.FailNow(t, "the copy does not end")
	}
}
