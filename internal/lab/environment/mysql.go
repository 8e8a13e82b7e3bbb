package environment

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/lockport/lockport/internal/lab/servers"
)

// MySQL is one MariaDB or MySQL server.
type MySQL struct {
	base
	locks
	Server *servers.MariaDB
}

// startMySQL starts a server that accepts this many clients.
func startMySQL(own bool, clients string, l layout) starter {
	o := servers.MariaDBOptions{MySQL: own, Config: []string{"max_connections=" + clients}}
	return starts(servers.StartMariaDB, o, func(s *servers.MariaDB) *MySQL {
		m := &MySQL{baseOf(func() string { return l.url(s.URL()) }, servers.SetOf(s.Server)), l.at(s.Server), s}
		m.restarts, m.forgets = true, l.forgets
		return m
	})
}

var mySQLSessions = layout{url: sessionURL, forgets: true, at: func(s *servers.Server) locks {
	return &sessions{
		server: s, key: func(name string) any { return fmt.Sprintf("%x", sha256.Sum256([]byte("lockport:"+name))) },
		used: "SELECT id FROM (SELECT IS_USED_LOCK(?) AS id) AS used WHERE id IS NOT NULL", end: "KILL %s", lock: "SELECT GET_LOCK(?, 5)",
		leftovers: func(ctx context.Context, prefix string) ([]string, error) { // locks that are held or awaited
			return s.Texts(ctx, `SELECT CONCAT('held: ', name) FROM lockport_fence WHERE LEFT(name, ?) = ? AND IS_USED_LOCK(id) IS NOT NULL
				UNION ALL SELECT CONCAT('waits: ', name) FROM lockport_fence f
				JOIN information_schema.PROCESSLIST ON INFO LIKE CONCAT('%GET_LOCK(''', f.id, '''%') WHERE LEFT(name, ?) = ?`,
				len(prefix), prefix, len(prefix), prefix)
		},
	}
}}

var mySQLRows = layout{url: rowsURL, at: func(s *servers.Server) locks { return &rows{s, "?", "UNIX_TIMESTAMP() * 1000000"} }}
