package worlds

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	_ "github.com/lockport/lockport/backend/postgres" // what workers open
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Postgres is one PostgreSQL.
var Postgres = faults.Arrangement{
	Name:          "postgres",
	Title:         "one PostgreSQL",
	Backend:       "postgres",
	TTL:           sessionTTL,
	Margin:        marginOf(sessionTTL),
	Sessions:      true,
	Tokens:        true,
	RemovalNotice: 100 * time.Millisecond,
	Needs:         []string{"postgres"},
	Start:         startPostgres,
	Cells:         slices.Concat(faults.Common(false, closedBothWays...), postgresCells),
}

// onePostgres is what the strikes on it work on.
type onePostgres struct {
	server *servers.Postgres
}

func startPostgres(ctx context.Context) (*faults.World, error) {
	server, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		return nil, err
	}
	s := &onePostgres{server: server}
	return &faults.World{
		Servers: s,
		Seat:    func() (*faults.Seat, error) { return seat([]string{server.Addr()}, postgresURL(server.URL())) },
		Mend:    s.mend,
		Close:   server.Close,
		Log:     server.Log,
	}, nil
}

// postgresURL makes the URL that a worker opens of the server's own: through other addresses, and with our TTL.
func postgresURL(server string) func(addrs []string) string {
	return func(addrs []string) string {
		u, _ := url.Parse(server)
		return fmt.Sprintf("postgres://%s@%s?ttl=%v", u.User, listURL("", u.Path)(addrs), sessionTTL)
	}
}

func (s *onePostgres) grants() process { return s.server }

func (s *onePostgres) mend(ctx context.Context) error {
	if err := revive(ctx, []*servers.Postgres{s.server}); err != nil {
		return err
	}
	return askPostgres(ctx, s.server, "ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
}

// askPostgres carries out statements of the administrator's, as soon as the server lets him in: it may be recovering from a crash.
func askPostgres(ctx context.Context, server *servers.Postgres, statements ...string) error {
	conn, err := dialPostgres(ctx, server.AdminURL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// dialPostgres connects as soon as the server lets somebody in.
func dialPostgres(ctx context.Context, adminURL string) (conn *pgx.Conn, err error) {
	err = eventually(ctx, func(ctx context.Context) error {
		conn, err = pgx.Connect(ctx, adminURL)
		return err
	})
	return conn, err
}

// holdsKey is a condition on pg_locks that only who holds the lock on the name $1 satisfies, by the layout on the backend's page.
const holdsKey = `locktype = 'advisory' AND granted AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) =
	('x' || encode(substring(sha256(convert_to('lockport:' || $1, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint`

var errNotHeld = errors.New("nobody holds the lock that was to be taken away")

// endClaim ends the session that has the lock on name.
func (s *onePostgres) endClaim(ctx context.Context, name string) error {
	conn, err := dialPostgres(ctx, s.server.AdminURL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var ended bool
	err = conn.QueryRow(ctx, "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE "+holdsKey, name).Scan(&ended)
	if errors.Is(err, pgx.ErrNoRows) {
		return errNotHeld
	}
	if err == nil && !ended {
		err = errors.New("the session does not end")
	}
	return err
}
