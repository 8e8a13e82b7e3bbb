package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/session"
)

func init() {
	lockport.Register(lockport.Scheme{
		Name:         "mysql",
		Open:         open,
		Example:      "mysql://user:password@localhost:3306/database",
		Params:       params,
		Capabilities: capabilities(Options{TTL: lockport.DefaultTTL}),
	})
}

var params = []lockport.Param{
	{Name: "blockers", Text: "limit on names that wait on their own connections; default 4"},
	{Name: "prefix", Text: `hashed before each name; default "lockport:"; may be empty`},
	{Name: "exact", Text: "true: names are the server's lock names, to share locks with other programs that call GET_LOCK"},
	{Name: "table", Text: `the table of fencing tokens; default "lockport_fence"`},
	{Name: "tokens", Text: "false: no fencing tokens, and no table"},
	{Name: "tls", Text: "true: TLS, verifying the server's certificate; skip-verify: not verifying it"},
	{Name: "ca", Text: "file with the CA certificates (PEM) that verify the server's; default: the system's"},
	{Name: "cert", Text: "file with the client's certificate (PEM)"},
	{Name: "key", Text: "file with its key"},
	{Name: "servername", Text: "name that the server's certificate must have; default: the host"},
	{Name: "socket", Text: "path of a Unix socket, instead of host and port"},
}

// open makes a backend from a URL, without I/O.
func open(u *url.URL, so lockport.SchemeOptions) (driver.Backend, error) {
	p := lockurl.Of(u)
	o := Options{TTL: so.TTL, Table: p.Text("table"), Blockers: p.Int("blockers"), ExactKeys: p.Bool("exact", false), NoTokens: !p.Bool("tokens", true)}
	o.Prefix, o.NoPrefix = p.Prefix()
	cfg, err := configOf(u, p)
	if err != nil {
		return nil, err
	}
	if cfg.DBName == "" && !o.NoTokens && !strings.Contains(o.Table, ".") {
		return nil, errors.New("the URL names no database for the table of fencing tokens: name one, or do without tokens")
	}
	connector, err := gomysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(0) // Inspect and the like are rare
	return newBackend(db, db.Close, o)
}

var errURLForm = errors.New("want mysql://user:password@host:port/database")

// configOf returns how to connect to the URL's server.
func configOf(u *url.URL, p *lockurl.Params) (*gomysql.Config, error) {
	cfg := gomysql.NewConfig()
	cfg.Timeout, cfg.Logger = session.MaxDial, &gomysql.NopLogger{}
	cfg.User, cfg.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
	cfg.Passwd, _ = u.User.Password()
	socket := p.Text("socket")
	switch {
	case u.Fragment != "" || u.Opaque != "":
		return nil, errURLForm
	case cfg.User == "":
		return nil, fmt.Errorf("the URL names no user: %w", errURLForm)
	case strings.Contains(cfg.DBName, "/"):
		return nil, fmt.Errorf("the URL's path %q is not a database name: %w", u.Path, errURLForm)
	case socket != "" && u.Host != "":
		return nil, errors.New("the URL names both a host and a socket: give one of them")
	case socket != "":
		cfg.Net, cfg.Addr = "unix", socket
	default:
		hosts := p.Hosts("3306")
		if u.Hostname() == "" || len(hosts) != 1 {
			return nil, fmt.Errorf("the URL must name one server: %w", errURLForm)
		}
		cfg.Net, cfg.Addr = "tcp", hosts[0]
	}
	switch mode := p.Text("tls"); mode {
	case "true", "skip-verify":
		cfg.TLS = p.TLS(u.Hostname())
		cfg.TLS.InsecureSkipVerify = mode == "skip-verify"
	case "", "false":
		p.NoTLS("tls=true")
	default:
		p.Fail("bad value %q of the URL parameter tls: want true, skip-verify or false", mode)
	}
	return cfg, p.Err()
}
