package environment

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/internal/lab/servers"
)

var (
	mySQLEnvironment = sqlOf("mysql", "one MariaDB", "mysql", []string{"mariadb"}, startMySQL(false))
	mySQLOwn         = sqlOf("mysql-own", "one MySQL", "mysql", []string{"mysql"}, startMySQL(true))
)

func startMySQL(own bool) func(ctx context.Context) (Servers, error) {
	return func(ctx context.Context) (Servers, error) {
		server, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{MySQL: own, Settings: map[string]string{"max_connections": "60"}})
		if err != nil {
			return nil, err
		}
		admin, err := mySQLAdministrator(server)
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		return &MySQL{absent: absent{"one MySQL"}, group: group[*servers.MariaDB]{server}, Server: server, Admin: admin, foreign: make(map[string]*sql.Conn)}, nil
	}
}

// MySQL is one MariaDB or MySQL server.
type MySQL struct {
	absent
	group[*servers.MariaDB]
	Server *servers.MariaDB
	// Admin are connections of the administrator.
	Admin *sql.DB
	// Spare is where new clients are led, if it is set.
	Spare atomic.Pointer[servers.MariaDB]

	mu      sync.Mutex
	foreign map[string]*sql.Conn // those who took a lock's place
}

// mySQLAdministrator makes connections that print nothing when a server is killed.
func mySQLAdministrator(server *servers.MariaDB) (*sql.DB, error) {
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

// Nodes implements Servers.
func (m *MySQL) Nodes() []Node { return m.group.Nodes() }

// Addrs implements Servers.
func (m *MySQL) Addrs() []string { return []string{cmp.Or(m.Spare.Load(), m.Server).Addr()} }

// URL is the server's own with another address and our TTL.
func (m *MySQL) URL(addrs []string) string {
	u, _ := url.Parse(m.Server.URL())
	u.Host, u.RawQuery = addrs[0], "ttl="+sessionTTL.String()
	return u.String()
}

// Close implements Servers.
func (m *MySQL) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.foreign {
		_ = conn.Close()
	}
	return errors.Join(m.Admin.Close(), m.group.Close())
}

// Heal implements Servers.
func (m *MySQL) Heal(ctx context.Context) error {
	if err := Revive(ctx, m.Server); err != nil {
		return err
	}
	return Eventually(ctx, func(ctx context.Context) error {
		_, err := m.Admin.ExecContext(ctx, "SET GLOBAL wait_timeout = DEFAULT")
		return err
	})
}

// Restart implements Servers. It kills the server. Without its data it has no tokens.
func (m *MySQL) Restart(ctx context.Context, keepData bool) error {
	if err := m.Server.Kill(); err != nil {
		return err
	}
	if err := m.Server.Restart(ctx); err != nil || keepData {
		return err
	}
	_, err := m.Admin.ExecContext(ctx, "DROP TABLE IF EXISTS lockport_fence")
	return err
}

// mySQLKey is the id of a lock in SQL, for the name ?.
const mySQLKey = "SHA2(CONCAT('lockport:', ?), 256)"

// Remove ends the session that has the lock on name, and returns when it has it no more. Somebody who waits may have it then.
func (m *MySQL) Remove(ctx context.Context, name string) error {
	for first := (sql.NullInt64{}); ; {
		var holder sql.NullInt64
		err := m.Admin.QueryRowContext(ctx, "SELECT IS_USED_LOCK("+mySQLKey+")", name).Scan(&holder)
		switch {
		case err != nil:
			return err
		case !holder.Valid && !first.Valid:
			return ErrNotHeld
		case !holder.Valid, first.Valid && holder != first:
			return nil
		}
		first = holder
		_, _ = m.Admin.ExecContext(ctx, fmt.Sprint("KILL ", holder.Int64)) // it may just have ended
	}
}

// Overwrite implements Servers.
func (m *MySQL) Overwrite(ctx context.Context, name string) error {
	conn, err := m.Admin.Conn(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.foreign[name] = conn
	m.mu.Unlock()
	if err := m.Remove(ctx, name); err != nil && !errors.Is(err, ErrNotHeld) {
		return err
	}
	var got int
	return conn.QueryRowContext(ctx, "SELECT GET_LOCK("+mySQLKey+",5)", name).Scan(&got)
}

// Leftovers implements Servers: locks that are held or waited for.
func (m *MySQL) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	names := make(map[string]string)
	err = m.rows(ctx, func(rows *sql.Rows) error {
		var id, name string
		var held bool
		err := rows.Scan(&id, &name, &held)
		if names[id] = name; held {
			left = append(left, "held: "+name)
		}
		return err
	}, "SELECT id,name,IS_USED_LOCK(id) IS NOT NULL FROM lockport_fence WHERE LEFT(name,?)=?", len(prefix), prefix)
	if err != nil {
		return nil, err
	}
	err = m.rows(ctx, func(rows *sql.Rows) error {
		var query string
		err := rows.Scan(&query)
		if key := strings.Split(query, "'"); len(key) > 1 && names[key[1]] != "" {
			left = append(left, "waits: "+names[key[1]])
		}
		return err
	}, "SELECT INFO FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT GET_LOCK(%'")
	return left, err
}

// rows calls use for each row of a query.
func (m *MySQL) rows(ctx context.Context, use func(*sql.Rows) error, query string, args ...any) error {
	rows, err := m.Admin.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := use(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
