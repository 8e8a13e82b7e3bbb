package postgres

import (
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
	{Name: "blockers", Text: "limit on names that wait on their own connections; default 4"},
	{Name: "prefix", Text: `hashed before each name; default "lockport:"; may be empty`},
	{Name: "exact", Text: "true: names are the keys themselves, 64-bit numbers"},
	{Name: "schema", Text: `schema of the sequence lockport_token and the table lockport_epoch; default "public"`},
	{Name: "sslmode", Text: "disable, allow, prefer (the default), require, verify-ca or verify-full, as in libpq"},
	{Name: "sslrootcert", Text: "file with the CA certificates (PEM) that verify the server's"},
	{Name: "sslcert", Text: "file with the client's certificate (PEM)"},
	{Name: "sslkey", Text: "file with its key"},
	{Name: "sslsni", Text: "0: do not name the host in the TLS handshake"},
	{Name: "sslnegotiation", Text: "postgres (the default) or direct"},
	{Name: "channel_binding", Text: "disable, prefer (the default) or require"},
	{Name: "require_auth", Text: "accepted authentication methods, such as scram-sha-256"},
	{Name: "target_session_attrs", Text: "which of several hosts: primary (the default), any, read-write; of one host: any"},
	{Name: "connect_timeout", Text: "seconds for one address; default and maximum: 4, or 1 with several hosts"},
}

// pgxSettings are the parameters that pgx knows, with defaults. All go to pgx, so that it takes none from the environment. Those that are not in
// params come from other parts of the URL, or stay as they are.
func pgxSettings() map[string]string {
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
	db := openDB(config, nil, nil)
	return newBackend(db, db.Close, o)
}

// configOf reads a URL into o and pgx's configuration.
func configOf(u *url.URL, o *Options) (*pgx.ConnConfig, error) {
	p := lockurl.Of(u)
	o.Blockers, o.ExactKeys, o.Schema = p.Int("blockers"), p.Bool("exact", false), p.Text("schema")
	o.Prefix, o.NoPrefix = p.Prefix()
	if u.Opaque != "" || u.Fragment != "" || u.Host == "" {
		return nil, fmt.Errorf("want %s://user:password@host:port/database", u.Scheme)
	}
	settings, hosts := pgxSettings(), p.Hosts("5432")
	if len(hosts) > 1 { // the primary before a fail-over may be back as a replica
		settings["target_session_attrs"] = "primary"
	}
	for _, param := range params {
		if _, ok := settings[param.Name]; ok && p.Has(param.Name) {
			settings[param.Name] = p.Text(param.Name)
		}
	}
	settings["user"] = u.User.Username()
	settings["password"], _ = u.User.Password()
	settings["dbname"] = strings.TrimPrefix(u.Path, "/")
	for _, address := range hosts {
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

// parse makes pgx's configuration from settings alone: pgx would take missing ones from the environment and from files in the user's home.
func parse(settings map[string]string) (*pgx.ConnConfig, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s='%s' ", name, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(settings[name]))
	}
	config, err := pgx.ParseConfig(strings.TrimSpace(text.String()))
	if err != nil {
		reason, _ := lockurl.PgxReason(err.Error())
		return nil, fmt.Errorf("the URL cannot be used: %s", session.OneLine(reason))
	}
	for name, value := range pgxSettings() {
		if _, unknown := config.RuntimeParams[name]; unknown && settings[name] != value {
			return nil, fmt.Errorf("the parameter %s needs a newer pgx than this program was built with", name)
		}
	}
	config.RuntimeParams = map[string]string{} // a service file may have set others
	return config, nil
}
