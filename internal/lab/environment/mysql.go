package environment

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
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
		s, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{MySQL: own, Settings: map[string]string{"max_connections": "60"}})
		if err != nil {
			return nil, err
		}
		config, err := mysql.ParseDSN(s.AdminDSN())
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		config.Logger = &mysql.NopLogger{} // nothing is printed when a server is killed
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return &MySQL{base: baseOf("one MySQL", s), Server: s, Admin: newAdmin(sql.OpenDB(connector))}, nil
	}
}

// MySQL is one MariaDB or MySQL server.
type MySQL struct {
	base
	Server *servers.MariaDB
	// Admin are connections of the administrator.
	Admin *admin
	// Spare is where new clients are led, if it is set.
	Spare atomic.Pointer[servers.MariaDB]
}

// Addrs implements Servers.
func (m *MySQL) Addrs() []string { return []string{cmp.Or(m.Spare.Load(), m.Server).Addr()} }

// URL implements Servers.
func (m *MySQL) URL(addrs []string) string { return sqlURL(m.Server.URL(), addrs) }

// Close implements Servers.
func (m *MySQL) Close() error {
	m.Admin.close()
	return m.base.Close()
}

// Heal implements Servers.
func (m *MySQL) Heal(ctx context.Context) error {
	return inOrder(ctx, m.base.Heal, m.Admin.running("SET GLOBAL wait_timeout = DEFAULT"))
}

// Restart implements Servers. It kills the server. Without its data it has no tokens.
func (m *MySQL) Restart(ctx context.Context, keepData bool) error {
	steps := []func(context.Context) error{now(m.Server.Kill), m.Server.Restart}
	if !keepData {
		steps = append(steps, m.Admin.running("DROP TABLE IF EXISTS lockport_fence"))
	}
	return inOrder(ctx, steps...)
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
	return m.Admin.overwrite(ctx, name, "SELECT GET_LOCK("+mySQLKey+",5)", name, m.Remove)
}

// Leftovers implements Servers: locks that are held or waited for.
func (m *MySQL) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	names := make(map[string]string)
	err = m.Admin.each(ctx, func(rows *sql.Rows) error {
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
	err = m.Admin.each(ctx, func(rows *sql.Rows) error {
		var query string
		err := rows.Scan(&query)
		if key := strings.Split(query, "'"); len(key) > 1 && names[key[1]] != "" {
			left = append(left, "waits: "+names[key[1]])
		}
		return err
	}, "SELECT INFO FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT GET_LOCK(%'")
	return left, err
}
