package servers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const pgBouncerInstall = "apt-get install pgbouncer (Debian), brew install pgbouncer (macOS)"

// PgBouncerOptions are the options of a PgBouncer.
type PgBouncerOptions struct {
	// Server is what it stands before. Needed.
	Server *Postgres
	// Mode is its pool_mode: "session" (the default), "transaction" or "statement".
	Mode string
	// Config are further lines of the section [pgbouncer]: "default_pool_size = 2".
	Config []string
}

// PgBouncer is a PgBouncer. Safe for concurrent use.
type PgBouncer struct {
	*server
	options PgBouncerOptions
}

// StartPgBouncer starts a PgBouncer, ready when it accepts connections. ctx bounds the start alone. The caller must Close it.
func StartPgBouncer(ctx context.Context, o PgBouncerOptions) (*PgBouncer, error) {
	path, err := find("pgbouncer", pgBouncerInstall)
	if err != nil {
		return nil, err
	}
	var folder string
	p := &PgBouncer{options: o}
	p.server, err = startServer(ctx, program{
		name: "pgbouncer",
		path: path,
		configure: func(dir string, port int) ([]string, error) {
			folder = dir
			for name, text := range o.files(dir, port) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					return nil, err
				}
			}
			return []string{"-q", filepath.Join(dir, "pgbouncer.ini")}, nil
		},
		ready: func(ctx context.Context, addr string, pid int) error {
			if text, err := os.ReadFile(filepath.Join(folder, "pgbouncer.pid")); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(pid) {
				return fmt.Errorf("pgbouncer is not ready: process id %q: %w", text, cmp.Or(err, error(os.ErrNotExist)))
			}
			return answersSSLRequest(ctx, addr)
		},
	}, freePort)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// files are what the program reads.
func (o PgBouncerOptions) files(dir string, port int) map[string]string {
	host, serverPort, _ := net.SplitHostPort(o.Server.Addr())
	lines := []string{
		"[databases]",
		fmt.Sprintf("%s = host=%s port=%s", postgresUser, host, serverPort),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprint("listen_port = ", port),
		"unix_socket_dir =",
		"auth_type = scram-sha-256",
		"auth_file = " + filepath.Join(dir, "users"),
		"pidfile = " + filepath.Join(dir, "pgbouncer.pid"),
		"pool_mode = " + cmp.Or(o.Mode, "session"),
		"server_tls_sslmode = prefer",
	}
	lines = append(lines, o.Config...)
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	return map[string]string{
		"pgbouncer.ini": strings.Join(lines, "\n") + "\n",
		"users":         quote(postgresUser) + " " + quote(o.Server.password) + "\n",
	}
}

// answersSSLRequest asks a server that speaks Postgres' protocol whether it speaks TLS, which it answers with a letter, as
// https://www.postgresql.org/docs/current/protocol-flow.html has it.
func answersSSLRequest(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// URL is as that of the server behind it, for the ordinary role.
func (p *PgBouncer) URL() string {
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(postgresUser, p.options.Server.password), Host: p.Addr(), Path: "/" + postgresUser,
	}).String()
}
