package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// postgresUser is the name of the ordinary role and of its database.
	postgresUser = "lockport"
	// postgresAdmin is the superuser.
	postgresAdmin = "postgres"
	// secretFile, in the data folder, holds the random passwords of both roles. It comes from the template.
	secretFile = "lockport.passwords"
)

// PostgresOptions are the options of a Postgres. The zero value is a plain server. Its data survive SIGKILL and Restart, but not a crash of the
// machine: nothing is synced to disk.
type PostgresOptions struct {
	// Settings are lines of postgresql.conf, which override ours: "max_connections": "20".
	Settings map[string]string
	// TLS makes the server accept TLS as well: see Server.TLSConfig.
	TLS bool
	// Durable syncs commits to disk.
	Durable bool
	// Clock gives the server a private clock, which JumpClock sets: see RedisOptions.Clock.
	Clock bool
	// Primary makes the server a hot standby that streams from Primary, with Primary's options plus Settings.
	Primary *Postgres
}

// Postgres is a PostgreSQL server with a role lockport, no superuser, which owns the database lockport. Passwords are random. Safe for concurrent
// use.
type Postgres struct {
	*Server
	options         PostgresOptions
	password, admin string // of the ordinary role and the superuser
}

// StartPostgres starts a Postgres.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	if primary := o.Primary; primary != nil {
		settings := map[string]string{}
		maps.Copy(settings, primary.options.Settings)
		maps.Copy(settings, o.Settings)
		o = primary.options
		o.Primary, o.Settings = primary, settings
	}
	p := &Postgres{options: o}
	var err error
	p.Server, err = start(ctx, kind{
		name: "postgres", tls: o.TLS, clock: o.Clock,
		end:       syscall.SIGINT, // fast shutdown: does not wait for clients
		family:    true,
		configure: p.configure,
		ready: func(ctx context.Context, addr string) error {
			conn, err := pgx.Connect(ctx, postgresURL(addr, postgresAdmin, p.admin)) // the server reserves connections for superusers
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	})
	return p, err
}

// configure creates the server's data folder and its configuration.
func (p *Postgres) configure(ctx context.Context, dir string, port int) ([]string, error) {
	data := dataDir(dir)
	var err error
	if primary := p.options.Primary; primary != nil {
		p.password, p.admin = primary.password, primary.admin
		err = p.tool(ctx, dir, nil, "pg_basebackup", "-D", data, "-d", primary.AdminURL(), "-R", "-X", "stream", "-c", "fast", "-N")
	} else {
		err = p.create(ctx, dir)
	}
	if err != nil {
		return nil, err
	}
	text := []byte(p.options.config(dir, port))
	return []string{"-D", data}, os.WriteFile(filepath.Join(data, "postgresql.conf"), text, 0o600)
}

// config returns postgresql.conf. ALTER SYSTEM overrides it.
func (o PostgresOptions) config(dir string, port int) string {
	settings := map[string]string{
		"port":                       strconv.Itoa(port),
		"listen_addresses":           "127.0.0.1",
		"unix_socket_directories":    "",
		"max_connections":            "100",
		"shared_buffers":             "16MB",
		"dynamic_shared_memory_type": "mmap", // /dev/shm may be small
		"log_line_prefix":            "%m [%p] %q%u@%d ",
		"log_min_messages":           "warning",
	}
	if !o.Durable {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	if o.TLS {
		settings["ssl"], settings["ssl_cert_file"], settings["ssl_key_file"] = "on", filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	}
	maps.Copy(settings, o.Settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return text.String()
}

// create makes a new database cluster, with our role and our database.
func (p *Postgres) create(ctx context.Context, dir string) error {
	data := dataDir(dir)
	path, err := find("postgres")
	if err != nil {
		return err
	}
	if err := fromTemplate(data, path, "2", func() error {
		password, admin, secret := rand.Text(), rand.Text(), filepath.Join(dir, "secret")
		if err := os.WriteFile(secret, []byte(admin+"\n"), 0o600); err != nil {
			return err
		}
		if err := p.tool(ctx, dir, nil, "initdb", "-D", data, "-U", postgresAdmin, "--pwfile", secret, "-A", "scram-sha-256", "-E", "UTF8",
			"--locale=C", "-N", "--wal-segsize=1"); err != nil {
			return err
		}
		sql := fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s'\nCREATE DATABASE %[1]s OWNER %[1]s\n", postgresUser, password)
		return errors.Join(os.Remove(secret), os.WriteFile(filepath.Join(data, secretFile), []byte(password+" "+admin), 0o600),
			p.tool(ctx, dir, strings.NewReader(sql), "postgres", "--single", "-D", data, "-c", "fsync=off", postgresAdmin))
	}); err != nil {
		return err
	}
	secrets, err := os.ReadFile(filepath.Join(data, secretFile))
	p.password, p.admin, _ = strings.Cut(string(secrets), " ")
	return errors.Join(err, os.Chmod(data, 0o700)) // the server refuses wider permissions
}

// Follow makes the server a streaming replica of primary, with the server's own options. It kills the server, replaces its data with a copy of
// primary's, and restarts it. It returns when the replica accepts reads. ctx bounds the start. Do not call it concurrently with other methods of p.
func (p *Postgres) Follow(ctx context.Context, primary *Postgres) error {
	p.options.Primary = primary
	if err := p.Kill(); err != nil {
		return err
	}
	if err := p.WipeData(); err != nil {
		return err
	}
	return p.Restart(ctx)
}

// tool runs one of Postgres' programs as the user of the servers.
func (p *Postgres) tool(ctx context.Context, dir string, input *strings.Reader, name string, args ...string) error {
	path, err := find(name)
	if err != nil {
		return err
	}
	user, err := serverUser()
	if err := errors.Join(err, user.own(dir)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.SysProcAttr = dir, user.attributes()
	cmd.WaitDelay = time.Second // pg_basebackup has a child that keeps its output open until the primary ends
	if input != nil {
		cmd.Stdin = input
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("servers: %s: %w:\n%s", name, errors.Join(context.Cause(ctx), err), out)
	}
	return nil
}

// URL returns "postgres://lockport:password@127.0.0.1:port/lockport", for the ordinary role.
func (p *Postgres) URL() string { return p.UserURL(postgresUser, p.password) }

// AdminURL returns URL for the superuser, with the same database.
func (p *Postgres) AdminURL() string { return p.UserURL(postgresAdmin, p.admin) }

// UserURL returns URL for another role.
func (p *Postgres) UserURL(user, password string) string {
	return postgresURL(p.Addr(), user, password)
}

func postgresURL(addr, user, password string) string {
	return serverURL("postgres", user, password, addr, postgresUser)
}
