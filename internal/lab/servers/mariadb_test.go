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

func TestFakeMySQL(t *testing.T) {
	f := NewFakeMySQL(t, "5.5.5-10.1.48-MariaDB")
	db := openSQL(t, "any:thing@tcp("+f.Addr()+")/lockport")
	require.Equal(t, "5.5.5-10.1.48-MariaDB", ask(t, db, "SELECT VERSION()"))
	_, err := db.ExecContext(t.Context(), "SET SESSION wait_timeout=3")
	require.NoError(t, err)
	require.ErrorContains(t, db.QueryRowContext(t.Context(), "SELECT GET_LOCK('a',0)").Err(), "syntax")
}
