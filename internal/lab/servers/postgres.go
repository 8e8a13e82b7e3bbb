package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	postgresInstall = "apt-get install postgresql (Debian), brew install postgresql (macOS)"

	// postgresUser is the ordinary role, and its database.
	postgresUser = "lockport"
	// postgresAdmin is the superuser.
	postgresAdmin = "postgres"
)

// PostgresOptions are the options of a Postgres. The zero value is a plain server whose data outlive kill -9 and Restart, though not the machine:
// nothing is synced to disk.
type PostgresOptions struct {
	// Settings are those of postgresql.conf, and win over ours: "max_connections": "20".
	Settings map[string]string
	// Password is that of the role lockport, who owns the database lockport and is no superuser. Default: a random one.
	Password string
	// TLS has the server accept TLS too. The certificate, for 127.0.0.1 and localhost, is signed by an authority that
	// lives as long as this process: see Postgres.TLSConfig and Postgres.CAFile. Clients need no certificate.
	TLS bool
	// Durable syncs to disk what is committed.
	Durable bool
	// Primary makes the server a streaming replica of another one, with that one's options. It can be read.
	Primary *Postgres
}

// Postgres is a PostgreSQL server. It consists of several processes: Kill, Stop, Freeze and Thaw are for all of them. Safe for concurrent
// use.
type Postgres struct {
	*server
	options         PostgresOptions
	password, admin string // of the ordinary role and the superuser
}

// StartPostgres starts a Postgres, ready when it accepts connections. ctx bounds the start alone. The caller must Close the server.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	path, err := find("postgres", postgresInstall)
	if err != nil {
		return nil, err
	}
	if o.Primary != nil {
		settings := o.Settings
		primary := o.Primary
		o = primary.options
		o.Primary, o.Settings = primary, maps.Clone(o.Settings)
		if o.Settings == nil {
			o.Settings = map[string]string{}
		}
		maps.Copy(o.Settings, settings)
	}
	var folder string // of the server, known when it is configured
	p := &Postgres{options: o}
	p.server, err = startServer(ctx, program{
		name:   "postgres",
		path:   path,
		tls:    o.TLS,
		end:    syscall.SIGINT, // without waiting for the clients
		family: true,
		configure: func(dir string, port int) ([]string, error) {
			folder = dir
			return []string{"-D", dataDir(dir)}, p.configure(ctx, dir, port)
		},
		ready: func(_ context.Context, _ string, pid int) error { return postgresReady(folder, pid) },
	}, freePort)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// configure makes the server's data, if there are none yet, and its configuration.
func (p *Postgres) configure(ctx context.Context, dir string, port int) error {
	data := dataDir(dir)
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		if p.options.Primary != nil {
			err = p.copyPrimary(ctx, dir)
		} else {
			err = p.create(ctx, dir)
		}
		if err != nil {
			return err
		}
	}
	file := filepath.Join(data, "postgresql.conf")
	return os.WriteFile(file, []byte(p.options.config(dir, port)), 0o600)
}

// config is postgresql.conf. ALTER SYSTEM wins over it.
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
		maps.Copy(settings, map[string]string{"fsync": "off", "full_page_writes": "off"})
	}
	if o.TLS {
		maps.Copy(settings, map[string]string{"ssl": "on", "ssl_cert_file": filepath.Join(dir, certFile), "ssl_key_file": filepath.Join(dir, keyFile)})
	}
	maps.Copy(settings, o.Settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return text.String()
}

// secretFile, in the data, has the random passwords of both roles, which are as old as the template.
const secretFile = "lockport.passwords"

// create makes a new cluster, with our role and our database.
func (p *Postgres) create(ctx context.Context, dir string) error {
	data := dataDir(dir)
	path, err := find("postgres", postgresInstall)
	if err != nil {
		return err
	}
	single := func(sql string) error {
		return p.tool(ctx, dir, strings.NewReader(sql), "postgres", "--single", "-D", data, "-c", "fsync=off", postgresAdmin)
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
		return errors.Join(os.Remove(secret), os.WriteFile(filepath.Join(data, secretFile), []byte(password+" "+admin), 0o600),
			single(fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s'\nCREATE DATABASE %[1]s OWNER %[1]s\n", postgresUser, password)))
	}); err != nil {
		return err
	}
	if err := os.Chmod(data, 0o700); err != nil { // or the server refuses it
		return err
	}
	secrets, err := os.ReadFile(filepath.Join(data, secretFile))
	if err != nil {
		return err
	}
	p.password, p.admin, _ = strings.Cut(string(secrets), " ")
	if p.options.Password == "" {
		return nil
	}
	p.password = p.options.Password
	return single(fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'\n", postgresUser, strings.ReplaceAll(p.password, "'", "''")))
}

// copyPrimary makes a copy of the primary's data that will follow it.
func (p *Postgres) copyPrimary(ctx context.Context, dir string) error {
	p.password, p.admin = p.options.Primary.password, p.options.Primary.admin
	return p.tool(ctx, dir, nil, "pg_basebackup", "-D", dataDir(dir), "-d", p.options.Primary.AdminURL(), "-R", "-X", "stream", "-c", "fast", "-N")
}

// Follow makes the server, whatever it was, a streaming replica of primary, with that one's options: it is killed, its data are replaced by a copy of
// primary's, and it is started again. It returns when it can be read. ctx bounds all that. It must not run beside other methods of p.
func (p *Postgres) Follow(ctx context.Context, primary *Postgres) error {
	if err := p.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(dataDir(p.dir)); err != nil {
		return err
	}
	p.options.Primary = primary
	if err := errors.Join(p.configure(ctx, p.dir, p.port), p.user.own(p.dir)); err != nil {
		return err
	}
	return p.Restart(ctx)
}

// tool runs one of Postgres' own programs, which lie beside each other.
func (p *Postgres) tool(ctx context.Context, dir string, input *strings.Reader, name string, args ...string) error {
	path, err := find(name, postgresInstall)
	if err != nil {
		return err
	}
	user, err := lesserUser()
	if err == nil {
		err = user.own(dir)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.SysProcAttr = dir, user.attributes()
	cmd.WaitDelay = time.Second // pg_basebackup has a child that lives, with its output open, until the primary has ended
	if input != nil {
		cmd.Stdin = input
	}
	out, err := cmd.CombinedOutput()
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("servers: %s: gave up: %w", name, cause)
	}
	if err != nil {
		return fmt.Errorf("servers: %s: %w:\n%s", name, err, out)
	}
	return nil
}

// postgresReady reads what the server itself writes for pg_ctl: the first line of this file is its process id, the eighth how far it is.
func postgresReady(dir string, pid int) error {
	text, err := os.ReadFile(filepath.Join(dataDir(dir), "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if lines[0] != strconv.Itoa(pid) || len(lines) < 8 || strings.TrimSpace(lines[7]) != "ready" {
		return fmt.Errorf("postgres is not ready: %q", lines)
	}
	return nil
}

// URL is that of the ordinary role: "postgres://lockport:password@127.0.0.1:port/lockport".
func (p *Postgres) URL() string { return p.UserURL(postgresUser, p.password) }

// AdminURL is URL for the superuser, in the same database.
func (p *Postgres) AdminURL() string { return p.UserURL(postgresAdmin, p.admin) }

// UserURL is URL for another role.
func (p *Postgres) UserURL(user, password string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: p.Addr(), Path: "/" + postgresUser}).String()
}
