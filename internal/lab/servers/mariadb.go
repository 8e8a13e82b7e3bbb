package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// The users on every server: one that owns a single database, and an administrator.
const (
	mariaDBUser, mariaDBAdmin = "lockport", "lockport_admin"
	mariaDBDatabase           = "lockport"
)

// mysqldVariable is the path of Oracle's mysqld, which then takes MariaDB's place.
const mysqldVariable = "LOCKPORT_TEST_MYSQLD"

func mysqld() string { return os.Getenv(mysqldVariable) }

// mariaDBInit runs at every start, before clients are accepted. One statement a line.
const mariaDBInit = `CREATE DATABASE IF NOT EXISTS lockport;
CREATE USER IF NOT EXISTS 'lockport'@'%%' IDENTIFIED BY '%s';
GRANT ALL ON lockport.* TO 'lockport'@'%%';
CREATE USER IF NOT EXISTS 'lockport_admin'@'%%' IDENTIFIED BY '%s';
GRANT ALL ON *.* TO 'lockport_admin'@'%%' WITH GRANT OPTION;
`

// MariaDBOptions are the options of a MariaDB or MySQL. The zero value is a plain MariaDB, whose data survive SIGKILL and Restart.
type MariaDBOptions struct {
	// Config are more lines of my.cnf, which override ours: "wait_timeout=600".
	Config []string
	// TLS makes the server accept TLS only: see Server.TLSConfig.
	TLS bool
}

// MariaDB is a MariaDB or MySQL server. It has an empty database "lockport", on which alone the user "lockport" has all privileges.
type MariaDB struct{ *Server }

// StartMariaDB starts a MariaDB or MySQL, ready when it accepts logins.
func StartMariaDB(ctx context.Context, o MariaDBOptions) (*MariaDB, error) {
	name, path := "mariadbd", mysqld()
	if path != "" {
		name = "mysqld"
		if _, err := exec.LookPath(path); err != nil { // not a reason to skip a test
			return nil, fmt.Errorf("%s: %w", mysqldVariable, err)
		}
	}
	u := url.URL{Scheme: "mysql", User: url.UserPassword(mariaDBUser, userPassword()), Path: "/" + mariaDBDatabase}
	if o.TLS {
		u.RawQuery = "tls=true"
	}
	s, err := startSQL(ctx, kind{
		url: u, name: name, path: path, tls: o.TLS, configure: o.configure,
	}, func(k *kind) (*sql.DB, error) {
		connector, err := mysql.NewConnector(k.mySQLClient(mariaDBAdmin, adminPassword()))
		return sql.OpenDB(connector), err
	})
	return &MariaDB{s}, err
}

func (o MariaDBOptions) configure(ctx context.Context, dir string, port int) ([]string, error) {
	data, tmp := dataDir(dir), filepath.Join(dir, "tmp")
	initSQL := fmt.Sprintf(mariaDBInit, userPassword(), adminPassword())
	if err := errors.Join(os.MkdirAll(tmp, 0o700), os.WriteFile(filepath.Join(dir, "init.sql"), []byte(initSQL), 0o600)); err != nil {
		return nil, err
	}
	args := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + tmp} // not shared: a starting server deletes other servers' temporary files
	installer, setup := mysqld(), []string{"--initialize-insecure"}
	if installer != "" {
		args = append(args, "--secure-file-priv=NULL") // the default folder may be missing
	} else {
		args = append(args, "--innodb-data-file-path=ibdata1:4M:autoextend", "--innodb-log-file-size=8M") // smaller files than by default
		installer, setup = "mariadb-install-db", []string{"--auth-root-authentication-method=normal", "--skip-test-db"}
	}
	if err := runTool(ctx, dir, "", installer, slices.Concat(args, setup)...); err != nil {
		return nil, err
	}
	lines := []string{
		"bind-address=127.0.0.1",
		fmt.Sprint("port=", port),
		"socket=mysql.sock", // in the data folder, since a socket's path must be short
		"pid-file=" + filepath.Join(dir, "pid"),
		"init-file=" + filepath.Join(dir, "init.sql"),
		"skip-name-resolve",
		"loose-mysqlx=OFF",
		"innodb-buffer-pool-size=16M",
		"max-connections=500",
		"innodb-flush-log-at-trx-commit=2",
	}
	if o.TLS {
		cert := filepath.Join(dir, certFile)
		lines = append(lines, "ssl-ca="+cert, "ssl-cert="+cert, "ssl-key="+filepath.Join(dir, keyFile), "require-secure-transport=ON")
	}
	for _, line := range slices.Concat(lines, o.Config) {
		args = append(args, "--"+line)
	}
	return args, nil
}

// DSN returns URL in go-sql-driver's form. With TLS, the client does not verify the certificate.
func (m *MariaDB) DSN() string { return m.mySQLClient(mariaDBUser, userPassword()).FormatDSN() }

// AdminDSN returns DSN for the administrator.
func (m *MariaDB) AdminDSN() string { return m.mySQLClient(mariaDBAdmin, adminPassword()).FormatDSN() }

// mySQLClient returns a client configuration that logs nothing.
func (k *kind) mySQLClient(user, password string) *mysql.Config {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName, c.Logger = "tcp", k.Addr(), user, password, mariaDBDatabase, &mysql.NopLogger{}
	if k.tls {
		c.TLSConfig = "skip-verify"
	}
	return c
}
