package table

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	for _, example := range []string{"table+mysql://user:password@localhost:3306/database", "table+postgres://user:password@localhost:5432/database", "table+sqlite:///var/lib/app/locks.db"} {
		scheme, _, _ := strings.Cut(example, ":")
		lockport.Register(lockport.Scheme{Name: scheme, Open: open, Example: example, Capabilities: capabilities, Params: []lockport.Param{
			{Name: "table", Text: `the table's name; default "lockport_locks"`},
			{Name: "create", Text: "true: make the table if it is missing; default: that is an error"},
			{Name: "…", Text: "and those of the program's driver: pgx, go-sql-driver/mysql, or modernc.org/sqlite"},
		}})
	}
}

// open makes a backend of a URL, on a driver of database/sql that the program imports: this package imports none.
func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	p := lockurl.Of(u)
	o, create := Options{Table: p.Text("table")}, p.Bool("create", false)
	rest, err := p.Rest()
	if err != nil {
		return nil, err
	}
	d, name, dsn := dsnOf(u, rest)
	switch {
	case dsn == "" || u.Opaque != "" || u.Fragment != "":
		return nil, fmt.Errorf("want %s://user:password@host:port/database, or for SQLite the path of a file alone", u.Scheme)
	case !slices.Contains(sql.Drivers(), name):
		return nil, fmt.Errorf("this program has no driver for it: it must import one that database/sql knows as %q", name)
	}
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, errors.New("the driver does not understand the URL") // its own error may show the password
	}
	connections := 4
	if d == SQLite {
		connections = 1 // a file has one writer at a time, and those of a pool wait in turn
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	b, err := NewBackend(db, d, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b.owned, b.create = true, create
	return b, nil
}

// dsnOf is what a driver opens; empty: the URL lacks something.
func dsnOf(u *url.URL, rest url.Values) (d Dialect, name, dsn string) {
	set := func(name, value string) { rest.Set(name, cmp.Or(rest.Get(name), value)) }
	password, _ := u.User.Password()
	database := strings.TrimPrefix(u.Path, "/")
	switch isServer := u.Hostname() != "" && u.User.Username() != "" && database != ""; u.Scheme {
	case "table+postgres":
		if isServer {
			set("default_query_exec_mode", "exec") // without prepared statements, which a pooler may not keep
			dsn = (&url.URL{Scheme: "postgres", User: u.User, Host: u.Host, Path: u.Path, RawQuery: rest.Encode()}).String()
		}
		return Postgres, "pgx", dsn
	case "table+mysql":
		if isServer {
			set("interpolateParams", "true") // one round trip for a statement
			set("timeout", "5s")
			dsn = fmt.Sprintf("%s:%s@tcp([%s]:%s)/%s?%s", u.User.Username(), password, u.Hostname(), cmp.Or(u.Port(), "3306"), url.PathEscape(database), rest.Encode())
		}
		return MySQL, "mysql", dsn
	}
	if u.Host == "" && database != "" {
		set("_pragma", "busy_timeout(5000)") // a statement waits for others that write
		dsn = (&url.URL{Scheme: "file", Path: u.Path, RawQuery: rest.Encode()}).String()
	}
	return SQLite, "sqlite", dsn
}
