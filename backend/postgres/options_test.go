package postgres

import (
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/session"
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
		good + "?application_name=x":                 "unknown URL parameter",
		good + "?password=secret":                    "unknown URL parameter",
		good + "?blockers=1001":                      "1000",
		good + "?exact=true&prefix=x":                "exclude each other",
		good + "?schema=" + strings.Repeat("x", 64):  "not a schema name",
		good + "?ttl=1ms":                            "TTL",
		good + "?ttl=48h":                            "TTL",
		good + "?sslmode=perhaps":                    "sslmode",
		good + "?sslmode=verify-full&sslrootcert=/x": "/x",
		good + "?sslcert=/x":                         `both "sslcert" and "sslkey" are required`,
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
	u := peer.Must(url.Parse("postgres://me@host,other:5433/db"))(t)
	c := peer.Must(configOf(u, new(Options)))(t)
	require.Equal(t, []any{"host", uint16(5432), "db", "me", ""}, []any{c.Host, c.Port, c.Database, c.User, c.Password})
	require.Empty(t, c.RuntimeParams)
	require.NotNil(t, c.ValidateConnect, "several hosts: the primary")
	require.Equal(t, []any{"other", uint16(5433)}, []any{c.Fallbacks[1].Host, c.Fallbacks[1].Port})
	require.True(t, c.TLSConfig != nil && c.Fallbacks[0].TLSConfig == nil, "sslmode=prefer")
	single := peer.Must(configOf(peer.Must(url.Parse("postgres://me@host/db"))(t), new(Options)))(t)
	require.Nil(t, single.ValidateConnect)
	for name, value := range map[string]string{"ChannelBinding": "prefer", "RequireAuth": "", "MaxProtocolVersion": "3.0"} {
		if f := reflect.ValueOf(c.Config).FieldByName(name); f.IsValid() { // older versions of pgx lack the field and the variable
			require.Equal(t, value, f.String(), name)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{TTL: -1}, {TTL: time.Second + 1}, {Blockers: -1}, {Prefix: "x", NoPrefix: true}, {ExactKeys: true, NoPrefix: true}, {Prefix: "\xff"}, {Schema: "\xff"},
	} {
		require.Error(t, peer.ErrOf(o.prepare()), "%+v", o)
	}
	o := Options{}
	require.NoError(t, peer.ErrOf(o.prepare()))
	require.Equal(t, Options{TTL: lockport.DefaultTTL, Blockers: 4, Schema: "public"}, o)
}

func layoutOf(t *testing.T, o Options) session.Layout { return peer.Must(o.prepare())(t) }

// Other programs depend on the keys of names: changing one is a major version.
func TestWireGolden(t *testing.T) {
	page := peer.Must(os.ReadFile("../../docs/backends/postgres.md"))(t)
	for _, g := range []struct {
		prefix, name string
		key          int64
	}{
		{"lockport:", "nightly-report", 1460986057695863492},
		{"lockport:", "a/b", -3986616242842264740},
		{"lockport:", "Ünïcode", 3779539596001820623},
		{"", "invoice:42", 6688477336110245193},
	} {
		l := layoutOf(t, Options{Prefix: g.prefix, NoPrefix: g.prefix == ""})
		key := peer.Must(l.Key(g.name))(t)
		require.Equal(t, g.key, number(key), "%q", g.name)
		require.Contains(t, string(page), "`"+g.name+"`")
		require.Contains(t, string(page), "`"+strconv.FormatInt(g.key, 10)+"`")
	}
	l := layoutOf(t, Options{})
	set := l.Permit("1460986057695863492", 0)
	for want, key := range map[session.Key]session.Key{
		"-4532172492480221344": set, "-5908599515314385188": l.Permit(set, 1), "-9217001262187737936": l.Permit(set, 2),
	} {
		require.Equal(t, want, key)
		require.Contains(t, string(page), "`"+string(key)+"`")
	}
	hi, lo := side(42)
	require.Equal(t, [2]int32{2092877559, 828149654}, [2]int32{hi, lo})
	require.Equal(t, "1582175877, -2115926015", setUpLock)
}

func TestExactKeys(t *testing.T) {
	l := layoutOf(t, Options{ExactKeys: true})
	for name, want := range map[string]int64{"42": 42, "-7": -7, "0": 0, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		require.Equal(t, want, number(peer.Must(l.Key(name))(t)))
	}
	for _, name := range []string{"", "x", "007", "+1", "-0", " 1", "1e3", "9223372036854775808", strings.Repeat("1", 1024)} {
		require.ErrorIs(t, peer.ErrOf(l.Key(name)), driver.ErrRefused, "%q shares a lock with another name, or has none", name)
	}
}
