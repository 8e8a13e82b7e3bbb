package mysql

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lockurl"
)

// opened opens a URL, which says how to connect, with params for the backend.
func opened(t *testing.T, rawURL, params string) (*server, *gomysql.Config) {
	b := peer.Opened(t, rawURL+params)
	require.NoError(t, b.Close())
	u := peer.Must(url.Parse(rawURL))(t)
	cfg := peer.Must(configOf(u, lockurl.Of(u)))(t)
	return b.(*Backend).server, cfg
}

func TestURL(t *testing.T) {
	s, cfg := opened(t, "mysql://user:p%40ss@db.example.com/app", "")
	require.Equal(t, Options{TTL: 15 * time.Second, Blockers: 4, Table: "lockport_fence"}, s.o)
	require.Equal(t, []string{"user", "p@ss", "db.example.com:3306", "app"}, []string{cfg.User, cfg.Passwd, cfg.Addr, cfg.DBName})
	require.Nil(t, cfg.TLS)

	s, cfg = opened(t, "mysql://user@[::1]:3307/app?tls=true&servername=db", "&ttl=4s&blockers=9&prefix=&table=other.fence")
	require.Equal(t, Options{TTL: 4 * time.Second, Blockers: 9, NoPrefix: true, Table: "other.fence"}, s.o)
	require.Equal(t, []string{"[::1]:3307", "db", "`other`.`fence`"}, []string{cfg.Addr, cfg.TLS.ServerName, s.table})

	s, cfg = opened(t, "mysql://user@/?socket=/run/mysqld/mysqld.sock", "&tokens=false&exact=true")
	require.Equal(t, []string{"unix", "/run/mysqld/mysqld.sock"}, []string{cfg.Net, cfg.Addr})
	require.True(t, s.o.NoTokens && s.o.ExactKeys, "%+v", s.o)
}

func TestBadURLs(t *testing.T) {
	peer.BadURLs(t, map[string]string{
		"mysql://h/d":                                   "names no user",
		"mysql://user:secret@/d":                        "must name one server",
		"mysql://user:secret@a,b/d":                     "",
		"mysql://user:secret@h/":                        "names no database",
		"mysql://user:secret@h":                         "names no database",
		"mysql://user:secret@h/a/b":                     "not a database name",
		"mysql://user:secret@h/d?nonsense=1":            `unknown URL parameter "nonsense"`,
		"mysql://user:secret@h/d?blockers=100000":       "Blockers is 100000",
		"mysql://user:secret@h/d?ttl=1500ms":            "whole number of seconds",
		"mysql://user:secret@h/d?ttl=500ms":             "whole number of seconds",
		"mysql://user:secret@h/d?tokens=false&table=t":  "exclude each other",
		"mysql://user:secret@h/d?exact=true&prefix=p":   "exclude each other",
		"mysql://user:secret@h/d?table=a%60b":           "not a table name",
		"mysql://user:secret@h/d?table=a.b.c":           "not a table name",
		"mysql://user:secret@h/d?tls=maybe":             "bad value",
		"mysql://user:secret@h/d?ca=x":                  "needs tls=true",
		"mysql://user:secret@h/d?tls=true&ca=/none":     "URL parameter ca",
		"mysql://user:secret@h/d?tls=true&cert=a&key=b": "cert and key",
		"mysql://user:secret@h/d?socket=/s":             "both a host and a socket",
		"mysql://user:secret@h/d#fragment":              "want mysql://",
	})
	require.ErrorIs(t, peer.ErrOf(New(nil, Options{})), lockport.ErrInvalidOption)
	require.ErrorIs(t, peer.ErrOf(NewBackend(sql.OpenDB(nil), Options{Blockers: -1})), lockport.ErrInvalidOption)
}

func TestTLS(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{TLS: true})
	for query, class := range map[string]error{
		"tls=true&ca=" + m.CAFile(): nil,
		"tls=skip-verify":           nil,
		"tls=true":                  lockport.ErrRefused,
		"tls=true&servername=other.example&ca=" + m.CAFile(): lockport.ErrRefused,
		"tls=false": lockport.ErrRefused,
	} {
		c, err := lockport.Open(t.Context(), strings.Split(m.URL(), "?")[0]+"?"+query)
		if class != nil {
			require.ErrorIs(t, err, class, query)
			require.NotContains(t, err.Error(), ":pw")
			continue
		}
		require.NoError(t, err, query)
		require.NoError(t, peer.Holds(t, c, newName()).Release(t.Context()))
		require.NoError(t, c.Close())
	}
	require.ErrorIs(t, peer.ErrOf(lockport.Open(t.Context(), servers.SharedMariaDB(t).URL()+"?tls=true")), lockport.ErrRefused)
}
