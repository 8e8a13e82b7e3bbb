package table

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

// schemes say how to open a URL: the driver's name in database/sql, the scheme of the driver's own URLs, its package, its default parameters,
// and the size of the pool.
var schemes = map[string]struct {
	dialect                            Dialect
	example, driver, own, from, params string
	connections                        int
}{
	"table+postgres": {Postgres, "table+postgres://user:password@localhost:5432/database", "pgx", "postgres", "github.com/jackc/pgx/v5/stdlib",
		"default_query_exec_mode=exec", 4}, // no prepared statements: a pooler may not keep them
	"table+mysql": {MySQL, "table+mysql://user:password@localhost:3306/database", "mysql", "mysql", "github.com/go-sql-driver/mysql",
		"interpolateParams=true&timeout=5s&autocommit=1", 4}, // one round trip per statement
	"table+sqlite": {SQLite, "table+sqlite:///var/lib/app/locks.db", "sqlite", "file", "modernc.org/sqlite; the lockport command has none: on one machine, use a file: URL",
		"_pragma=busy_timeout(5000)", 1}, // a file has one writer: goroutines queue for the connection, which waits for other processes
}

func init() {
	for name, s := range schemes {
		lockport.Register(lockport.Scheme{Name: name, Open: open, Example: s.example, Capabilities: capabilities, Params: []lockport.Param{
			{Name: "table", Text: `the table's name; default "lockport_locks"`},
			{Name: "create", Text: "true: create the table if it is missing; default: a missing table is an error"},
			{Name: "…", Text: "parameters of the program's driver: pgx, go-sql-driver/mysql, or modernc.org/sqlite"},
		}})
	}
}

// open makes a backend from a URL, on a database/sql driver that the program imports: this package imports none.
func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	s, p := schemes[u.Scheme], lockurl.Of(u)
	o, create := Options{Table: p.Text("table")}, p.Bool("create", false)
	rest, err := p.Rest()
	database, hasServer := strings.TrimPrefix(u.Path, "/"), u.Hostname() != "" && u.User.Username() != ""
	switch {
	case err != nil:
		return nil, err
	case database == "" || u.Opaque != "" || u.Fragment != "" || hasServer == (u.Host == "") || hasServer == (s.dialect == SQLite):
		return nil, fmt.Errorf("want something like %s", s.example)
	case s.dialect == MySQL && strings.Contains(u.User.Username(), ":"):
		return nil, errors.New("go-sql-driver/mysql takes no user name with a colon: rename the user, or make the *sql.DB yourself")
	case !slices.Contains(sql.Drivers(), s.driver):
		return nil, fmt.Errorf("this program has no database/sql driver called %q: import %s", s.driver, s.from)
	}
	params, _ := url.ParseQuery(s.params)
	if pragmas := rest["_pragma"]; !strings.Contains(strings.ToLower(strings.Join(pragmas, " ")), "busy_timeout") {
		rest["_pragma"] = append(params["_pragma"], pragmas...) // a parameter that may be repeated
	}
	if s.dialect == Postgres && (strings.Contains(u.Host, ",") || strings.Contains(rest.Get("host"), ",")) {
		params.Set("target_session_attrs", "primary") // as postgres: URLs
		params.Set("connect_timeout", "1")            // a renewal, which has 2 s at most, gets past a silent host
	}
	maps.Copy(params, rest)
	query := strings.ReplaceAll(params.Encode(), "+", "%20") // pgx 5.11 and newer take a + for itself, as libpq does
	dsn := (&url.URL{Scheme: s.own, User: u.User, Host: u.Host, Path: u.Path, RawQuery: query}).String()
	if s.dialect == MySQL { // its driver takes no URL, and from 1.9 on does not decode the list charset
		password, _ := u.User.Password()
		dsn = fmt.Sprintf("%s:%s@tcp([%s]:%s)/%s?%s", u.User.Username(), password, u.Hostname(), cmp.Or(u.Port(), "3306"), url.PathEscape(database), strings.ReplaceAll(query, "%2C", ","))
	}
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		return nil, errors.New("the driver does not understand the URL") // its own error may show the password
	}
	db.SetMaxOpenConns(s.connections)
	db.SetMaxIdleConns(s.connections)
	if s.dialect != SQLite {
		db.SetConnMaxIdleTime(time.Minute) // a firewall may have forgotten a connection that was idle for longer: its next user would get no answer
	}
	b, err := NewBackend(db, s.dialect, o)
	if err != nil {
		return nil, cmp.Or(err, db.Close())
	}
	b.owned, b.create = true, create
	return b, nil
}
