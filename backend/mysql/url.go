package mysql

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/tlsfiles"
)

func init() {
	var o Options
	if err := o.prepare(); err != nil {
		panic(err)
	}
	lockport.Register(lockport.Scheme{
		Name:         "mysql",
		Open:         open,
		Example:      "mysql://user:password@localhost:3306/database",
		Params:       params,
		Capabilities: capabilities(o),
	})
}

var params = []lockport.Param{
	{Name: "blockers", Text: "how many names at most are waited for on connections of their own; default 4"},
	{Name: "prefix", Text: `what goes before a name when it is hashed; default "lockport:"; may be empty`},
	{Name: "exact", Text: "true: the name itself is the lock's at the server, to meet other programs that call GET_LOCK"},
	{Name: "table", Text: `the table of fencing tokens; default "lockport_fence"`},
	{Name: "tokens", Text: "false: no fencing tokens, and no table"},
	{Name: "tls", Text: "true: TLS, with a certificate that is checked; skip-verify: it is not checked"},
	{Name: "ca", Text: "file with the certificates (PEM) that the server's is checked against; default: the system's"},
	{Name: "cert", Text: "file with the client's certificate (PEM)"},
	{Name: "key", Text: "file with its key"},
	{Name: "servername", Text: "what the server's certificate must be for; default: the host"},
	{Name: "socket", Text: "path of a Unix socket, instead of host and port"},
}

// open makes a backend of a URL, without I/O.
func open(u *url.URL, so lockport.SchemeOptions) (driver.Backend, error) {
	given, err := takeParams(u.Query())
	if err != nil {
		return nil, err
	}
	o := Options{TTL: so.TTL, Table: given["table"]}
	if prefix, ok := given["prefix"]; ok {
		o.Prefix, o.NoPrefix = prefix, prefix == ""
	}
	if o.ExactKeys, err = given.flag("exact", false); err != nil {
		return nil, err
	}
	tokens, err := given.flag("tokens", true)
	if err != nil {
		return nil, err
	}
	o.NoTokens = !tokens
	if text, ok := given["blockers"]; ok {
		if o.Blockers, err = strconv.Atoi(text); err != nil || o.Blockers < 1 {
			return nil, fmt.Errorf("bad number %q of the URL parameter blockers: want 1 or more", text)
		}
	}
	cfg, err := configOf(u, given)
	if err != nil {
		return nil, err
	}
	return NewBackend(cfg, o)
}

// values are the parameters of a URL.
type values map[string]string

// takeParams refuses what is not known, or given twice.
func takeParams(q url.Values) (values, error) {
	given := make(values)
	for name, all := range q {
		known := false
		for _, p := range params {
			known = known || p.Name == name
		}
		switch {
		case !known:
			return nil, fmt.Errorf("unknown URL parameter %q of a mysql URL", name)
		case len(all) > 1:
			return nil, fmt.Errorf("the URL parameter %s is given twice", name)
		}
		given[name] = all[0]
	}
	return given, nil
}

func (v values) flag(name string, absent bool) (bool, error) {
	switch text, ok := v[name]; {
	case !ok:
		return absent, nil
	case text == "true":
		return true, nil
	case text == "false":
		return false, nil
	default:
		return false, fmt.Errorf("bad value %q of the URL parameter %s: want true or false", text, name)
	}
}

var errURLForm = errors.New("want mysql://user:password@host:port/database")

// configOf is how the URL's server is reached.
func configOf(u *url.URL, given values) (*gomysql.Config, error) {
	if u.Fragment != "" || u.Opaque != "" {
		return nil, errURLForm
	}
	cfg := gomysql.NewConfig()
	if u.User != nil {
		cfg.User = u.User.Username()
		cfg.Passwd, _ = u.User.Password()
	}
	if cfg.User == "" {
		return nil, fmt.Errorf("the URL names no user: %w", errURLForm)
	}
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	if strings.Contains(cfg.DBName, "/") {
		return nil, fmt.Errorf("the URL's path %q is no name of a database: %w", u.Path, errURLForm)
	}
	socket := given["socket"]
	switch {
	case socket != "" && u.Host != "":
		return nil, errors.New("the URL names both a host and a socket: give one of them")
	case socket != "":
		cfg.Net, cfg.Addr = "unix", socket
	case u.Hostname() == "" || strings.Contains(u.Host, ","):
		return nil, fmt.Errorf("the URL must name one server: %w", errURLForm)
	default:
		port := u.Port()
		if port == "" {
			port = defaultPort
		}
		cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(u.Hostname(), port)
	}
	return cfg, tlsOf(cfg, given, u.Hostname())
}

// tlsOf sets up TLS as the URL wants it.
func tlsOf(cfg *gomysql.Config, given values, host string) error {
	switch given["tls"] {
	case "true", "skip-verify":
	case "", "false":
		for _, name := range []string{"ca", "cert", "key", "servername"} {
			if _, ok := given[name]; ok {
				return fmt.Errorf("the URL parameter %s needs tls=true", name)
			}
		}
		return nil
	default:
		return fmt.Errorf("bad value %q of the URL parameter tls: want true, skip-verify or false", given["tls"])
	}
	if name := given["servername"]; name != "" {
		host = name
	}
	t, err := tlsfiles.Config(given["ca"], given["cert"], given["key"], host)
	if err != nil {
		return err
	}
	t.InsecureSkipVerify = given["tls"] == "skip-verify"
	cfg.TLS = t
	return nil
}
