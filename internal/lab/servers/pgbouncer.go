package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

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
