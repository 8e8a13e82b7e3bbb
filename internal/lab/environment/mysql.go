package environment

import (
	"cmp"
	"context"
	"database/sql"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/internal/lab/servers"
)

// MySQL is one MariaDB or MySQL server.
type MySQL struct {
	sessions
	Server *servers.MariaDB
	// Spare is where new clients are led, if it is set.
	Spare atomic.Pointer[servers.MariaDB]
}

func startMySQL(own bool) starter {
	o := servers.MariaDBOptions{MySQL: own, Settings: map[string]string{"max_connections": "60"}}
	return starts(servers.StartMariaDB, o, func(s *servers.MariaDB) *MySQL {
		const key = "SHA2(CONCAT('lockport:', ?), 256)" // of a lock in SQL, for the name ?
		m := &MySQL{Server: s, sessions: sessions{base: baseOf(sqlURL(s.URL()), s.Server), Admin: mySQLAdmin(s),
			used: "SELECT id FROM (SELECT IS_USED_LOCK(" + key + ") AS id) AS used WHERE id IS NOT NULL", end: "KILL %s", lock: "SELECT GET_LOCK(" + key + ",5)"}}
		m.front = func() string { return cmp.Or(m.Spare.Load(), s).Addr() }
		m.halt, m.forgets = (*servers.Server).Kill, true
		m.reset = m.Admin.running("SET GLOBAL wait_timeout = DEFAULT")
		return m
	})
}

func mySQLAdmin(s *servers.MariaDB) *admin {
	config, _ := mysql.ParseDSN(s.AdminDSN())
	config.Logger = &mysql.NopLogger{} // nothing is printed when a server is killed
	connector, _ := mysql.NewConnector(config)
	return newAdmin(sql.OpenDB(connector))
}

// Leftovers implements Servers: locks that are held or waited for.
func (m *MySQL) Leftovers(ctx context.Context, prefix string) ([]string, error) {
	return texts(ctx, m.Admin, `SELECT CONCAT('held: ', name) FROM lockport_fence WHERE LEFT(name, ?) = ? AND IS_USED_LOCK(id) IS NOT NULL
		UNION ALL SELECT CONCAT('waits: ', name) FROM lockport_fence f
		JOIN information_schema.PROCESSLIST ON INFO LIKE CONCAT('%GET_LOCK(''', f.id, '''%') WHERE LEFT(name, ?) = ?`,
		len(prefix), prefix, len(prefix), prefix)
}
