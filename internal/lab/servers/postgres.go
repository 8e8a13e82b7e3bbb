package servers

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

const (
	// postgresUser is the name of the ordinary role and of its database.
	postgresUser = "lockport"
	// postgresAdmin is the superuser.
	postgresAdmin = "postgres"
)

// PostgresOptions are the options of a Postgres. The zero value is a plain server, whose data survive SIGKILL and Restart.
type PostgresOptions struct {
	// Config are more lines of postgresql.conf, which override ours: "max_connections = 20".
	Config []string
	// TLS makes the server accept TLS as well: see Server.TLSConfig.
	TLS bool
	// Clock gives the server a private clock, which JumpClock sets: see RedisOptions.Clock.
	Clock bool
	// Primary makes the server a hot standby that streams from Primary, with Primary's Config before its own.
	Primary *Postgres
}

// Postgres is a PostgreSQL server with a role lockport, no superuser, which owns the database lockport.
type Postgres struct {
	*Server
	options PostgresOptions
}

// StartPostgres starts a Postgres.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	if o.Primary != nil {
		o.Config = slices.Concat(o.Primary.options.Config, o.Config)
	}
	p := &Postgres{options: o}
	var err error
	p.Server, err = startSQL(ctx, kind{
		name: "postgres", url: postgresURL(), tls: o.TLS, clock: o.Clock,
		end:       syscall.SIGINT, // fast shutdown: does not wait for clients
		family:    true,
		configure: p.configure,
	}, func(k *kind) (*sql.DB, error) { return sql.Open("pgx", k.UserURL(postgresAdmin, adminPassword())) })
	return p, err
}

// postgresURL returns the URL for the ordinary role, without a host.
func postgresURL() url.URL {
	return url.URL{Scheme: "postgres", User: url.UserPassword(postgresUser, userPassword()), Path: "/" + postgresUser}
}

func (p *Postgres) configure(ctx context.Context, dir string, port int) ([]string, error) {
	data := dataDir(dir)
	var err error
	if primary := p.options.Primary; primary != nil {
		err = runTool(ctx, dir, "", "pg_basebackup", "-D", data, "-d", primary.AdminURL(), "-R", "-X", "stream", "-c", "fast", "-N")
	} else {
		err = create(ctx, dir)
	}
	if err != nil {
		return nil, err
	}
	text := strings.Join(p.options.config(dir, port), "\n") + "\n"
	return []string{"-D", data}, os.WriteFile(filepath.Join(data, "postgresql.conf"), []byte(text), 0o600)
}

// config returns the lines of postgresql.conf. A later line overrides an earlier one, and ALTER SYSTEM overrides them all.
func (o PostgresOptions) config(dir string, port int) []string {
	lines := []string{
		fmt.Sprint("port = ", port),
		"listen_addresses = '127.0.0.1'",
		"unix_socket_directories = ''",
		"max_connections = 100",
		"password_encryption = md5", // SCRAM takes a client with the race detector 60 ms
		"shared_buffers = 16MB",
		"dynamic_shared_memory_type = mmap", // /dev/shm may be small
		"log_line_prefix = '%m [%p] %q%u@%d '",
		"log_min_messages = warning",
		"fsync = off",
		"full_page_writes = off",
	}
	if o.TLS {
		file := func(name string) string { return "'" + filepath.Join(dir, name) + "'" }
		lines = append(lines, "ssl = on", "ssl_cert_file = "+file(certFile), "ssl_key_file = "+file(keyFile))
	}
	return append(lines, o.Config...)
}

// create makes a new database cluster in dir, with our role and our database.
func create(ctx context.Context, dir string) error {
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(adminPassword()+"\n"), 0o600); err != nil {
		return err
	}
	data := dataDir(dir)
	if err := runTool(ctx, dir, "", "initdb", "-D", data, "-U", postgresAdmin, "--pwfile", secret, "-A", "md5", "-E", "UTF8",
		"--locale=C", "-N", "--wal-segsize=1"); err != nil {
		return err
	}
	sql := fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s'\nCREATE DATABASE %[1]s OWNER %[1]s\n", postgresUser, userPassword())
	return errors.Join(os.Remove(secret), runTool(ctx, dir, sql, "postgres", "--single", "-D", data, "-c", "fsync=off", postgresAdmin))
}

// Follow makes the server a streaming replica of primary, with the server's own options. It kills the server, replaces its data with a copy of
// primary's, and restarts it. It returns when the replica accepts reads. ctx bounds the start. Do not call it concurrently with other methods of p.
func (p *Postgres) Follow(ctx context.Context, primary *Postgres) error {
	p.options.Primary = primary
	return p.RestartEmpty(ctx)
}

// AdminURL returns URL for the superuser, with the same database.
func (p *Postgres) AdminURL() string { return p.UserURL(postgresAdmin, adminPassword()) }

// PgBouncerOptions are the options of a PgBouncer.
type PgBouncerOptions struct {
	// Server is the Postgres behind it. Required.
	Server *Postgres
	// Mode is its pool_mode: "session" (the default), "transaction" or "statement".
	Mode string
	// Config are more lines of the section [pgbouncer]: "default_pool_size = 2".
	Config []string
}

// StartPgBouncer starts a PgBouncer, ready when it accepts connections. Its URL is that of the server behind it, at its own address.
func StartPgBouncer(ctx context.Context, o PgBouncerOptions) (*Server, error) {
	return start(ctx, kind{
		name: "pgbouncer", url: postgresURL(), revive: true, // version 1.18 ends with "server in bad state" at times
		configure: func(_ context.Context, dir string, port int) ([]string, error) {
			lines := append([]string{
				"[databases]",
				fmt.Sprintf("%s = host=127.0.0.1 port=%d", postgresUser, o.Server.port),
				"[pgbouncer]",
				"listen_addr = 127.0.0.1",
				fmt.Sprint("listen_port = ", port),
				"unix_socket_dir =",
				"auth_type = md5", // under the race detector, SCRAM costs a client a tenth of a second for each connection
				"auth_file = " + filepath.Join(dir, "users"),
				"pool_mode = " + cmp.Or(o.Mode, "session"),
				"server_tls_sslmode = prefer",
				"max_client_conn = 500",
			}, o.Config...)
			users := fmt.Sprintf("%q %q\n", postgresUser, userPassword())
			return []string{"pgbouncer.ini"}, errors.Join(
				os.WriteFile(filepath.Join(dir, "pgbouncer.ini"), []byte(strings.Join(lines, "\n")+"\n"), 0o600),
				os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o600))
		},
		ready: accepts,
	})
}
