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
	Servers
	Server *servers.MariaDB
	// Admin opens the administrator's connections.
	Admin *admin
	// Spare, if set, is the server for new connections.
	Spare atomic.Pointer[servers.MariaDB]
}

// startMySQL starts a server that accepts this many clients.
func startMySQL(own bool, clients string, locks layout) starter {
	o := servers.MariaDBOptions{MySQL: own, Config: []string{"max_connections=" + clients}}
	return starts(servers.StartMariaDB, o, func(s *servers.MariaDB) *MySQL {
		m := &MySQL{Server: s, Admin: mySQLAdmin(s)}
		b := sqlBase{baseOf(func() string { return locks.url(cmp.Or(m.Spare.Load(), s).URL()) }, s.Server), m.Admin}
		b.halt = (*servers.Server).Kill
		b.reset = m.Admin.ready
		m.Servers = locks.on(b)
		return m
	})
}

func mySQLAdmin(s *servers.MariaDB) *admin {
	config, _ := mysql.ParseDSN(s.AdminDSN())
	config.Logger = &mysql.NopLogger{} // or the driver prints an error when the server is killed
	connector, _ := mysql.NewConnector(config)
	return newAdmin(sql.OpenDB(connector))
}

var mySQLSessions = layout{sessionURL, func(b sqlBase) Servers {
	const key = "SHA2(CONCAT('lockport:', ?), 256)" // SQL for the key of the lock on the name ?
	b.forgets = true
	return &sessions{
		sqlBase: b, used: "SELECT id FROM (SELECT IS_USED_LOCK(" + key + ") AS id) AS used WHERE id IS NOT NULL", end: "KILL %s", lock: "SELECT GET_LOCK(" + key + ",5)",
		leftovers: func(ctx context.Context, prefix string) ([]string, error) { // locks that are held or awaited
			return texts(ctx, b.Admin, `SELECT CONCAT('held: ', name) FROM lockport_fence WHERE LEFT(name, ?) = ? AND IS_USED_LOCK(id) IS NOT NULL
				UNION ALL SELECT CONCAT('waits: ', name) FROM lockport_fence f
				JOIN information_schema.PROCESSLIST ON INFO LIKE CONCAT('%GET_LOCK(''', f.id, '''%') WHERE LEFT(name, ?) = ?`,
				len(prefix), prefix, len(prefix), prefix)
		},
	}
}}
