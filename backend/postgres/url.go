package postgres

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
	"github.com/lockport/lockport/internal/session"
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
	config, err := configOf(u, &o)
	if err != nil {
		return nil, err
	}
	return newBackend(func(ctx context.Context) (*link, error) { return connect(ctx, config.Copy()) }, o)
}

// configOf reads a URL into o and pgx's configuration.
func configOf(u *url.URL, o *Options) (*pgx.ConnConfig, error) {
	p := lockurl.Of(u)
	o.Blockers, o.ExactKeys, o.Schema = p.Int("blockers"), p.Bool("exact", false), p.Text("schema")
	o.Prefix, o.NoPrefix = p.Prefix()
	settings := passed()
	for _, param := range params {
		if _, ok := settings[param.Name]; ok && p.Has(param.Name) {
			settings[param.Name] = p.Text(param.Name)
		}
	}
	if u.Opaque != "" || u.Fragment != "" || u.Host == "" {
		return nil, fmt.Errorf("want %s://user:password@host:port/database", u.Scheme)
	}
	settings["user"] = u.User.Username()
	settings["password"], _ = u.User.Password()
	settings["dbname"] = strings.TrimPrefix(u.Path, "/")
	for _, address := range p.Hosts("5432") {
		host, port, _ := net.SplitHostPort(address)
		settings["host"], settings["port"] = settings["host"]+","+host, settings["port"]+","+port
	}
	settings["host"], settings["port"] = settings["host"][1:], settings["port"][1:]
	for what, missing := range map[string]bool{"user": settings["user"] == "", "database": settings["dbname"] == ""} {
		if missing {
			p.Fail("the URL names no %s: want %s://user:password@host:port/database", what, u.Scheme)
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return parse(settings)
}

// quoted is what ends the connection string in an error of pgx.
const quoted = "`: "

// parse makes pgx's configuration of settings alone: pgx would fill in what is missing from the environment and from files in the user's home.
func parse(settings map[string]string) (*pgx.ConnConfig, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s='%s' ", name, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(settings[name]))
	}
	config, err := pgx.ParseConfig(strings.TrimSpace(text.String()))
	if err != nil {
		text := err.Error() // it quotes everything, and what it says follows: the password may be in the former alone
		return nil, fmt.Errorf("the URL cannot be used: %s", session.OneLine(text[strings.LastIndex(text, quoted)+len(quoted):]))
	}
	for name, value := range passed() {
		if _, unknown := config.RuntimeParams[name]; unknown && settings[name] != value {
			return nil, fmt.Errorf("the parameter %s needs a newer version of pgx than this program has", name)
		}
	}
	config.RuntimeParams = map[string]string{} // a service file has given others, perhaps
	return config, nil
}
