package environment

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Postgres is one PostgreSQL server.
type Postgres struct {
	base
	locks
	Server *servers.Postgres
}

func startPostgres(l layout) starter {
	return starts(servers.StartPostgres, servers.PostgresOptions{Clock: true}, func(s *servers.Postgres) *Postgres { return postgresOf(l, s, s.Server) })
}

// pooled starts a PostgreSQL server behind a PgBouncer in a mode, with size connections to the server.
func pooled(mode string, size int, l layout) starter {
	return func(ctx context.Context) (Servers, error) {
		s, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
		if err != nil {
			return nil, err
		}
		pooler, err := servers.StartPgBouncer(ctx, servers.PgBouncerOptions{Server: s, Mode: mode, Config: []string{
			fmt.Sprint("default_pool_size = ", size),
			"server_login_retry = 1", // reconnect to a lost server after 1 s, not 15 s
		}})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return postgresOf(l, s, pooler, s.Server), nil
	}
}

// postgresOf arranges nodes. Clients connect to the first.
func postgresOf(l layout, s *servers.Postgres, nodes ...*servers.Server) *Postgres {
	p := &Postgres{baseOf(func() string { return l.url(nodes[0].URL()) }, servers.SetOf(nodes...)), l.at(s.Server), s}
	p.restarts = true
	return p
}

// advisoryKey returns the key of an advisory lock: the beginning of a hash, by the layout on the backend's page.
func advisoryKey(parts ...any) int64 {
	sum := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// SQL for the keys of advisory locks, and for the rows of the lock with the key $1.
const (
	advisoryKeys = "(classid::bigint << 32 | objid::bigint)"
	advisoryLock = "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND " + advisoryKeys + " = $1"
)

// kept returns what Postgres may keep for the lock on name: its rows, as postgresSessions lists them, and what they are. It has the first permits.
func kept(name string) map[string]string {
	key := advisoryKey("lockport:", name)
	rows := map[string]string{fmt.Sprint(key, "/1"): "the lock", fmt.Sprint(advisoryKey("lockport.side:", key), "/2"): "a waiter"}
	for n := 1; n <= 8; n++ {
		rows[fmt.Sprint(advisoryKey("lockport.permit:", advisoryKey("lockport.permit:", key, ":0"), ":", n), "/1")] = "a permit"
	}
	return rows
}

var postgresSessions = layout{url: sessionURL, at: func(server *servers.Server) locks {
	s := &sessions{
		server: server, key: func(name string) any { return advisoryKey("lockport:", name) },
		used: "SELECT pid::text " + advisoryLock + " AND granted", end: "SELECT pg_terminate_backend(%s, 5000)", lock: "SELECT pg_try_advisory_lock($1)",
	}
	s.leftovers = func(ctx context.Context, prefix string) (left []string, err error) { // for the names that Config's backends were asked for
		rows, err := server.Texts(ctx, "SELECT "+advisoryKeys+" || '/' || objsubid FROM pg_locks WHERE locktype = 'advisory'")
		for name := range s.names.Range {
			for row, what := range kept(name.(string)) {
				if strings.HasPrefix(name.(string), prefix) && slices.Contains(rows, row) {
					left = append(left, fmt.Sprint(name, ": ", what))
				}
			}
		}
		return left, err
	}
	return s
}}

var postgresRows = layout{
	url: func(server string) string { return rowsURL(server) + "&sslmode=disable" }, // otherwise the driver connects twice, first with TLS
	at: func(s *servers.Server) locks {
		return &rows{s, "$1", "extract(epoch FROM clock_timestamp()) * 1000000"}
	},
}
