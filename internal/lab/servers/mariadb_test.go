package servers

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// openSQL returns a pool for t.
func openSQL(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func ask(t *testing.T, db *sql.DB, query string) (answer string) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&answer))
	return answer
}

func TestMariaDB(t *testing.T) {
	TempDir(t)
	m := NeedMariaDB(t, MariaDBOptions{Settings: map[string]string{"wait_timeout": "601", "max-connections": "77"}})
	db := openSQL(t, m.DSN())
	require.Equal(t, "lockport@%", ask(t, db, "SELECT CURRENT_USER()"))
	require.Equal(t, "601", ask(t, db, "SELECT @@wait_timeout"))
	require.Equal(t, "77", ask(t, db, "SELECT @@max_connections"))
	require.Equal(t, "2", ask(t, db, "SELECT @@innodb_flush_log_at_trx_commit"))
	_, err := db.ExecContext(t.Context(), "CREATE DATABASE other")
	require.Error(t, err, "the user has its database alone")
	_, err = openSQL(t, m.AdminDSN()).ExecContext(t.Context(), "CREATE DATABASE other")
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (x INT)")
	require.NoError(t, err)

	for _, end := range []func() error{m.Kill, m.Stop, func() error { return nil }} {
		_, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
		require.NoError(t, err)
		before := ask(t, db, "SELECT COUNT(*) FROM t")
		addr, pid := m.Addr(), m.Pid()
		require.NoError(t, end())
		require.NoError(t, m.Restart(t.Context()))
		require.Equal(t, addr, m.Addr())
		require.NotEqual(t, pid, m.Pid())
		db = openSQL(t, m.DSN())
		require.Equal(t, before, ask(t, db, "SELECT COUNT(*) FROM t"), "data outlive a kill")
	}
	require.NoError(t, db.Close())
	require.NoError(t, m.Freeze())
	require.NoError(t, m.Thaw())
	require.NoError(t, m.Close())
	wantEmpty(t, os.TempDir())
}

func TestMariaDBSyncsIfAsked(t *testing.T) {
	m := NeedMariaDB(t, MariaDBOptions{Durable: true})
	require.Equal(t, "1", ask(t, openSQL(t, m.DSN()), "SELECT @@innodb_flush_log_at_trx_commit"))
}

func TestMariaDBTLS(t *testing.T) {
	m := NeedMariaDB(t, MariaDBOptions{TLS: true})
	require.Contains(t, m.URL(), m.Addr()+"/lockport?tls=true")
	require.NotEmpty(t, ask(t, openSQL(t, m.DSN()), "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'"))

	pem, err := os.ReadFile(m.CAFile())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	ours := m.TLSConfig()
	for _, c := range []struct {
		tls *tls.Config
		ok  bool
	}{{ours, true}, {&tls.Config{RootCAs: roots}, true}, {&tls.Config{}, false}, {nil, false}} {
		config, err := mysql.ParseDSN(m.DSN())
		require.NoError(t, err)
		config.TLSConfig, config.TLS, config.Logger = "", c.tls, &mysql.NopLogger{}
		connector, err := mysql.NewConnector(config)
		require.NoError(t, err)
		db := sql.OpenDB(connector)
		require.Equal(t, c.ok, db.PingContext(t.Context()) == nil)
		require.NoError(t, db.Close())
	}

	plain := NeedMariaDB(t, MariaDBOptions{})
	require.Nil(t, plain.TLSConfig())
	require.Empty(t, plain.CAFile())
}

func TestMariaDBThatDoesNotStart(t *testing.T) {
	NeedMariaDB(t, MariaDBOptions{}) // it is installed
	TempDir(t)
	_, err := StartMariaDB(t.Context(), MariaDBOptions{Settings: map[string]string{"no-such-setting": "1"}})
	require.ErrorContains(t, err, "ended at its start")
	require.ErrorContains(t, err, "no-such-setting")
	wantEmpty(t, os.TempDir())
}

// TestMySQL is skipped where MySQL's own server is not installed: MariaDB's, which has a mysqld too, is not taken for it.
func TestMySQL(t *testing.T) {
	m := NeedMariaDB(t, MariaDBOptions{MySQL: true})
	require.NotContains(t, ask(t, openSQL(t, m.DSN()), "SELECT VERSION()"), "MariaDB")
	require.NoError(t, m.Kill())
	require.NoError(t, m.Restart(t.Context()))
}

func TestFakeMySQL(t *testing.T) {
	f := NewFakeMySQL(t, "5.5.5-10.1.48-MariaDB")
	db := openSQL(t, "any:thing@tcp("+f.Addr()+")/lockport")
	require.Equal(t, "5.5.5-10.1.48-MariaDB", ask(t, db, "SELECT VERSION()"))
	_, err := db.ExecContext(t.Context(), "SET SESSION wait_timeout=3")
	require.NoError(t, err)
	require.ErrorContains(t, db.QueryRowContext(t.Context(), "SELECT GET_LOCK('a',0)").Err(), "syntax")
}
