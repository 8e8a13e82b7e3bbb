package postgres

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

func init() {
	for _, name := range []string{"postgres", "postgresql"} {
		lockport.Register(lockport.Scheme{
			Name:         name,
			Open:         openURL,
			Example:      name + "://user:password@localhost:5432/database?sslmode=verify-full",
			Params:       params,
			Capabilities: capabilities(lockport.DefaultTTL),
		})
	}
}

var params = []lockport.Param{
	{Name: "blockers", Text: "how many names at most wait on connections of their own; default 4"},
	{Name: "prefix", Text: `what names are hashed behind; default "lockport:"; may be empty`},
	{Name: "exact", Text: "true: names are the keys themselves, numbers of 64 bits"},
	{Name: "schema", Text: `where the sequence lockport_token and the table lockport_epoch are; default "public"`},
	{Name: "sslmode", Text: "disable, allow, prefer (the default), require, verify-ca or verify-full, as libpq has them"},
	{Name: "sslrootcert", Text: "file with the certificates (PEM) that the server's is checked against"},
	{Name: "sslcert", Text: "file with the client's certificate (PEM)"},
	{Name: "sslkey", Text: "file with its key"},
	{Name: "sslsni", Text: "0: do not name the host in the TLS handshake"},
	{Name: "sslnegotiation", Text: "postgres (the default) or direct"},
	{Name: "channel_binding", Text: "disable, prefer (the default) or require"},
	{Name: "require_auth", Text: "the methods of authentication that are accepted: scram-sha-256"},
	{Name: "target_session_attrs", Text: "of several hosts, which one: any (the default), primary, read-write"},
	{Name: "connect_timeout", Text: "seconds for one attempt to connect; default 10"},
}

// passed are the parameters that pgx knows. Each is given to it, set or not, lest it take them from the environment. Of what is set here, the ones
// that are no parameters above stand in the URL itself or are kept from pgx.
func passed() map[string]string {
	return map[string]string{
		"host": "", "port": "", "dbname": "", "user": "", "password": "", "passfile": "", "application_name": "", "connect_timeout": "10", "sslmode": "prefer",
		"sslcert": "", "sslcertmode": "allow", "sslsni": "", "sslkey": "", "sslrootcert": "", "sslpassword": "", "sslnegotiation": "postgres",
		"target_session_attrs": "any", "timezone": "", "options": "", "min_protocol_version": "", "max_protocol_version": "",
		"channel_binding": "prefer", "require_auth": "",
	}
}

// openURL makes a backend of a URL, without I/O.
func openURL(u *url.URL, so lockport.SchemeOptions) (driver.Backend, error) {
	o := Options{TTL: so.TTL}
	settings := passed()
	for name, values := range u.Query() {
		if !slices.ContainsFunc(params, func(p lockport.Param) bool { return p.Name == name }) {
			return nil, fmt.Errorf("unknown URL parameter %q of a %s URL", name, u.Scheme)
		}
		if len(values) > 1 {
			return nil, fmt.Errorf("the URL parameter %s is given twice", name)
		}
		if _, ok := settings[name]; ok {
			settings[name] = values[0]
		} else if err := o.set(name, values[0]); err != nil {
			return nil, err
		}
	}
	if err := address(u, settings); err != nil {
		return nil, err
	}
	config, err := parse(settings)
	if err != nil {
		return nil, err
	}
	return newBackend(func(context.Context) (*pgconn.Config, error) { return config.Copy(), nil }, o)
}

// set sets an option by its URL parameter.
func (o *Options) set(name, value string) (err error) {
	switch name {
	case "blockers":
		if o.Blockers, err = strconv.Atoi(value); err != nil || o.Blockers < 1 {
			return fmt.Errorf("bad number %q of the URL parameter blockers: want one from 1 to 1000", value)
		}
	case "prefix":
		o.Prefix, o.NoPrefix = value, value == ""
	case "exact":
		if o.ExactKeys, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("bad value %q of the URL parameter exact: want true or false", value)
		}
	case "schema":
		o.Schema = value
	}
	return nil
}

// address writes into settings what stands before a URL's parameters.
func address(u *url.URL, settings map[string]string) error {
	if u.Opaque != "" || u.Fragment != "" || u.Host == "" {
		return fmt.Errorf("want %s://user:password@host:port/database", u.Scheme)
	}
	if u.User == nil || u.User.Username() == "" {
		return fmt.Errorf("the URL names no user: want %s://user:password@host:port/database", u.Scheme)
	}
	settings["user"] = u.User.Username()
	settings["password"], _ = u.User.Password()
	if settings["dbname"] = strings.TrimPrefix(u.Path, "/"); settings["dbname"] == "" {
		return fmt.Errorf("the URL names no database: want %s://user:password@host:port/database", u.Scheme)
	}
	var hosts, ports []string
	for _, address := range strings.Split(u.Host, ",") {
		h, err := url.Parse("//" + address)
		if err != nil || h.Hostname() == "" {
			return fmt.Errorf("bad address %q in the URL: want host:port, several with commas between them", address)
		}
		port := h.Port()
		if port == "" {
			port = "5432"
		}
		hosts, ports = append(hosts, h.Hostname()), append(ports, port)
	}
	settings["host"], settings["port"] = strings.Join(hosts, ","), strings.Join(ports, ",")
	return nil
}

// quoted is what ends the connection string in an error of pgx.
const quoted = "`: "

// parse makes pgx's configuration of settings alone: pgx would fill in what is missing from the environment and from files in the user's home.
func parse(settings map[string]string) (*pgconn.Config, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s='%s' ", name, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(settings[name]))
	}
	config, err := pgconn.ParseConfig(text.String())
	if err != nil {
		text := err.Error() // it quotes everything, and what it says follows: the password may be in the former alone
		return nil, fmt.Errorf("the URL cannot be used: %s", oneLine(text[strings.LastIndex(text, quoted)+len(quoted):]))
	}
	config.RuntimeParams = map[string]string{} // a service file has given others, perhaps
	return config, nil
}
