package worlds

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	_ "github.com/lockport/lockport/backend/mysql" // what workers open
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// MySQL is one MariaDB.
var MySQL = faults.Arrangement{
	Name:          "mysql",
	Title:         "one MariaDB",
	Backend:       "mysql",
	TTL:           sessionTTL,
	Margin:        marginOf(sessionTTL),
	Sessions:      true,
	Tokens:        true,
	RemovalNotice: 100 * time.Millisecond,
	Needs:         []string{"mariadb"},
	Start:         startMySQL,
	Cells:         slices.Concat(faults.Common(false, closedBothWays...), mySQLCells),
}

// oneMySQL is what the strikes on it work on.
type oneMySQL struct {
	server *servers.MariaDB
	admin  *sql.DB
	spare  atomic.Pointer[servers.MariaDB] // where new workers are led, if there is one
}

func startMySQL(ctx context.Context) (*faults.World, error) {
	server, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{Settings: map[string]string{"max_connections": "60"}})
	if err != nil {
		return nil, err
	}
	admin, err := administrator(server)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	s := &oneMySQL{server: server, admin: admin}
	return &faults.World{
		Servers: s,
		Seat:    s.seat,
		Mend:    s.mend,
		Close:   func() error { return errors.Join(admin.Close(), server.Close()) },
		Log:     server.Log,
	}, nil
}

// administrator is connections of the server's administrator, which say nothing of their own when a server is killed that they knew.
func administrator(server *servers.MariaDB) (*sql.DB, error) {
	config, err := mysql.ParseDSN(server.AdminDSN())
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// mySQLURL makes the URL that a worker opens of the server's own: through another address, and with our TTL.
func mySQLURL(server string) func(addrs []string) string {
	return func(addrs []string) string {
		u, _ := url.Parse(server)
		u.Host, u.RawQuery = addrs[0], "ttl="+sessionTTL.String()
		return u.String()
	}
}

func (s *oneMySQL) grants() process { return s.server }

func (s *oneMySQL) seat() (*faults.Seat, error) {
	server := cmp.Or(s.spare.Load(), s.server)
	return seat([]string{server.Addr()}, mySQLURL(server.URL()))
}

// mend ends what a strike has left, as soon as the server answers.
func (s *oneMySQL) mend(ctx context.Context) error {
	if err := revive(ctx, []*servers.MariaDB{s.server}); err != nil {
		return err
	}
	return eventually(ctx, func(ctx context.Context) error {
		_, err := s.admin.ExecContext(ctx, "SET GLOBAL wait_timeout = DEFAULT")
		return err
	})
}
