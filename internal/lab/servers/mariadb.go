package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	mariaDBInstall = "apt-get install mariadb-server (Debian), brew install mariadb (macOS)"
	mySQLInstall   = "MySQL's own server 8.0 or newer (https://dev.mysql.com/downloads/mysql/), its mysqld in PATH"

	// Who there is on every server of ours: one user who has a database of its own and no more, and one who
	// may do everything.
	mariaDBUser, mariaDBAdmin = "lockport", "lockport_admin"
	mariaDBDatabase           = "lockport"
)

// userPassword is that of the ordinary users of this process's servers.
var userPassword = sync.OnceValue(rand.Text)

// MariaDBOptions are the options of a MariaDB or MySQL. The zero value is a plain MariaDB. Its data outlive kill -9 and Restart,
// though not the machine: nothing is synced to disk.
type MariaDBOptions struct {
	// Settings are system variables at the start, which win over ours: "wait_timeout": "600". An empty value is a flag
	// without one.
	Settings map[string]string
	// Durable has every commit synced to disk (innodb_flush_log_at_trx_commit = 1), as is the default of both servers.
	Durable bool
	// TLS serves TLS and nothing else. The certificate, for 127.0.0.1 and localhost, is signed by an authority that
	// lives as long as this process: see MariaDB.TLSConfig and MariaDB.CAFile. Clients need no certificate.
	TLS bool
	// MySQL starts MySQL's own server instead, if one is installed.
	MySQL bool
}

// MariaDB is a MariaDB or MySQL server. It has an empty database "lockport", which the user "lockport" with a random
// password may use as it likes, and nothing else. Safe for concurrent use.
type MariaDB struct {
	*server
	options MariaDBOptions
}

// StartMariaDB starts a MariaDB, ready when it lets clients in. ctx bounds the start alone. The caller must Close the server.
func StartMariaDB(ctx context.Context, o MariaDBOptions) (*MariaDB, error) {
	path, install, err := o.programs()
	if err != nil {
		return nil, err
	}
	m := &MariaDB{options: o}
	var pidFile string // known when it is configured
	m.server, err = startServer(ctx, program{
		name: filepath.Base(path),
		path: path,
		tls:  o.TLS,
		configure: func(dir string, port int) ([]string, error) {
			pidFile = filepath.Join(dir, "pid")
			return o.configure(dir, port, path, install)
		},
		ready: func(ctx context.Context, addr string, pid int) error { return mariaDBReady(ctx, addr, pid, pidFile) },
	}, freePort)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// programs are the paths of the server and of what makes its data folder.
func (o MariaDBOptions) programs() (server, install string, err error) {
	if !o.MySQL {
		if server, err = find("mariadbd", mariaDBInstall); err == nil {
			install, err = find("mariadb-install-db", mariaDBInstall)
		}
		return server, install, err
	}
	server, err = find("mysqld", mySQLInstall)
	if err != nil {
		return "", "", err
	}
	version, err := exec.Command(server, "--no-defaults", "--version").Output()
	if err == nil && strings.Contains(string(version), "MariaDB") { // which calls itself mysqld too
		err = &NotInstalled{Program: "mysqld", Install: mySQLInstall}
	}
	return server, server, err
}

// configure makes the data folder, unless an attempt with another port has, and returns the arguments.
func (o MariaDBOptions) configure(dir string, port int, path, install string) ([]string, error) {
	data, tmp := filepath.Join(dir, "data"), filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	args := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + tmp} // a server that starts deletes what others have in theirs
	if _, err := os.Stat(data); err != nil {
		flags := []string{"--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-data-file-path=ibdata1:4M:autoextend",
			"--innodb-log-file-size=8M"}
		if path == install {
			flags = []string{"--initialize-insecure"}
		}
		if os.Geteuid() == 0 {
			flags = append(flags, "--user=root") // or it refuses to run; the server itself is not root's
		}
		if err := fromTemplate(data, path, fmt.Sprint(flags), func() error {
			said, err := exec.Command(install, append(args[:len(args):len(args)], flags...)...).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("servers: %s: %w:\n%s", install, err, said)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "init.sql"), []byte(o.initSQL()), 0o600); err != nil {
		return nil, err
	}
	settings := map[string]string{
		"bind-address":                   "127.0.0.1",
		"port":                           strconv.Itoa(port),
		"socket":                         "mysql.sock", // in the data folder: the name of a socket may not be long
		"pid-file":                       filepath.Join(dir, "pid"),
		"init-file":                      filepath.Join(dir, "init.sql"),
		"skip-name-resolve":              "",
		"loose-mysqlx":                   "OFF",
		"innodb-flush-log-at-trx-commit": "2",
		"innodb-data-file-path":          "ibdata1:4M:autoextend",
		"innodb-buffer-pool-size":        "16M",
		"innodb-log-file-size":           "8M",
		"max-connections":                "500",
	}
	if path == install { // MySQL's own folder was made with its defaults
		delete(settings, "innodb-data-file-path")
		delete(settings, "innodb-log-file-size")
	}
	if o.Durable {
		settings["innodb-flush-log-at-trx-commit"] = "1"
	}
	if o.TLS {
		settings["ssl-ca"], settings["ssl-cert"], settings["ssl-key"] =
			filepath.Join(dir, caFile), filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
		settings["require-secure-transport"] = "ON"
	}
	for name, value := range o.Settings {
		settings[strings.ReplaceAll(name, "_", "-")] = value
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		flag := "--" + name
		if value := settings[name]; value != "" {
			flag += "=" + value
		}
		args = append(args, flag)
	}
	return args, nil
}

// initSQL is carried out at every start, before a client is let in; one statement a line.
func (o MariaDBOptions) initSQL() string {
	return strings.Join([]string{
		"CREATE DATABASE IF NOT EXISTS " + mariaDBDatabase + ";",
		"CREATE USER IF NOT EXISTS '" + mariaDBUser + "'@'%' IDENTIFIED BY '" + userPassword() + "';",
		"GRANT ALL ON " + mariaDBDatabase + ".* TO '" + mariaDBUser + "'@'%';",
		"CREATE USER IF NOT EXISTS '" + mariaDBAdmin + "'@'%' IDENTIFIED BY '" + adminPassword() + "';",
		"GRANT ALL ON *.* TO '" + mariaDBAdmin + "'@'%' WITH GRANT OPTION;",
	}, "\n") + "\n"
}

// mariaDBReady reports that the server has written its pid, which it does when the port is its own, and that it greets: it has carried
// out the init file then.
func mariaDBReady(ctx context.Context, addr string, pid int, pidFile string) error {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(text)); got != strconv.Itoa(pid) { // of an earlier start
		return fmt.Errorf("the server on %s is not up: its last process was %s", addr, got)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var header [5]byte // its length, its number, and the version of the protocol or 0xff
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return err
	}
	if header[4] != 10 {
		return errors.New("the server does not greet, but refuses")
	}
	return nil
}

// URL is the server's, for the user "lockport" and its database: "mysql://lockport:password@127.0.0.1:port/lockport", with "?tls=true" where
// it serves TLS.
func (m *MariaDB) URL() string { return m.UserURL(mariaDBUser, userPassword()) }

// AdminURL is URL for a user who may do everything.
func (m *MariaDB) AdminURL() string { return m.UserURL(mariaDBAdmin, adminPassword()) }

// UserURL is URL for another user.
func (m *MariaDB) UserURL(user, password string) string {
	u := url.URL{Scheme: "mysql", User: url.UserPassword(user, password), Host: m.Addr(), Path: "/" + mariaDBDatabase}
	if m.options.TLS {
		u.RawQuery = "tls=true"
	}
	return u.String()
}

// DSN is URL in the form of go-sql-driver, which with TLS does not check the certificate.
func (m *MariaDB) DSN() string { return m.dsn(mariaDBUser, userPassword()) }

// AdminDSN is AdminURL in that form.
func (m *MariaDB) AdminDSN() string { return m.dsn(mariaDBAdmin, adminPassword()) }

func (m *MariaDB) dsn(user, password string) string {
	dsn := fmt.Sprintf("%s:%s@tcp(%s)/%s", user, password, m.Addr(), mariaDBDatabase)
	if m.options.TLS {
		dsn += "?tls=skip-verify"
	}
	return dsn
}
