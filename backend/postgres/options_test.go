package postgres

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestBadURLs(t *testing.T) {
	const good = "postgres://lockport:secret@localhost/db"
	peer.BadURLs(t, map[string]string{
		"postgres://localhost/db":                    "names no user",
		"postgres://lockport:secret@/db":             "want postgres://",
		"postgres://lockport:secret@localhost":       "names no database",
		"postgres://lockport:secret@localhost/":      "names no database",
		"postgres://lockport:secret@:5432/db":        "bad address",
		good + "#x":                                  "want postgres://",
		good + "?nonsense=1":                         "unknown URL parameter \"nonsense\"",
		"postgres://u:1?secret@h/d":                  "percent-encode",
		good + "?pool_max_conns=3":                   "unknown URL parameter",
		good + "?application_name=x":                 "unknown URL parameter",
		good + "?service=x":                          "unknown URL parameter",
		good + "?password=secret":                    "unknown URL parameter",
		good + "?blockers=1001":                      "1000",
		good + "?exact=true&prefix=x":                "exclude each other",
		good + "?tokens=transactions":                "unknown URL parameter",
		good + "?schema=" + strings.Repeat("x", 64):  "not a schema name",
		good + "?ttl=1ms":                            "TTL",
		good + "?ttl=48h":                            "TTL",
		good + "?sslmode=perhaps":                    "sslmode",
		good + "?sslmode=verify-full&sslrootcert=/x": "/x",
		good + "?target_session_attrs=x":             "target_session_attrs",
		good + "?connect_timeout=x":                  "connect_timeout",
	})
}

// The environment does not fill in what the URL omits.
func TestURLsDoNotReadTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"PGHOST": "elsewhere", "PGPORT": "1", "PGDATABASE": "other", "PGUSER": "other", "PGPASSWORD": "other", "PGSSLMODE": "verify-full",
		"PGOPTIONS": "-c search_path=other", "PGAPPNAME": "other", "PGTZ": "other", "PGTARGETSESSIONATTRS": "standby", "PGSSLROOTCERT": "/nowhere",
		"PGCONNECT_TIMEOUT": "1", "PGPASSFILE": "/nowhere", "PGSSLCERT": "/nowhere", "PGSSLKEY": "/nowhere", "PGREQUIREAUTH": "none",
		"PGCHANNELBINDING": "require", "PGSSLNEGOTIATION": "direct", "PGSSLCERTMODE": "require", "PGMAXPROTOCOLVERSION": "3.2", "PGMINPROTOCOLVERSION": "3.2",
	} {
		t.Setenv(name, value)
	}
	u, err := url.Parse("postgres://me@host,other:5433/db")
	require.NoError(t, err)
	c, err := configOf(u, new(Options))
	require.NoError(t, err)
	require.Equal(t, "host", c.Host)
	require.Equal(t, uint16(5432), c.Port)
	require.Equal(t, "db", c.Database)
	require.Equal(t, "me", c.User)
	require.Empty(t, c.Password)
	require.Empty(t, c.RuntimeParams)
	require.Nil(t, c.ValidateConnect)
	require.Equal(t, "other", c.Fallbacks[1].Host)
	require.Equal(t, uint16(5433), c.Fallbacks[1].Port)
	require.True(t, c.TLSConfig != nil && c.Fallbacks[0].TLSConfig == nil, "sslmode=prefer")
	for name, value := range map[string]string{"ChannelBinding": "prefer", "RequireAuth": "", "MaxProtocolVersion": "3.0"} {
		if f := reflect.ValueOf(c.Config).FieldByName(name); f.IsValid() { // older versions of pgx lack the field and the variable
			require.Equal(t, value, f.String(), name)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{TTL: -1}, {TTL: time.Second + 1}, {Blockers: -1}, {Prefix: "x", NoPrefix: true}, {Prefix: "\xff"}, {Schema: "\xff"},
	} {
		_, err := o.prepare()
		require.Error(t, err, "%+v", o)
	}
	o := Options{}
	_, err := o.prepare()
	require.NoError(t, err)
	require.Equal(t, Options{TTL: lockport.DefaultTTL, Blockers: 4, Schema: "public"}, o)
}
