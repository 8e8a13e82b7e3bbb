package lockurl_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lockurl"
)

// of starts reading a URL.
func of(t *testing.T, raw string) *lockurl.Params {
	t.Helper()
	return lockurl.Of(peer.Must(url.Parse(raw))(t))
}

func TestAddressHasNoSecrets(t *testing.T) {
	for rawURL, want := range map[string]string{
		"redis://user:secret@h:6379/2?username=u&password=secret": "redis://h:6379/2",
		"postgres://u:secret@h1,h2:5432/db?sslmode=require":       "postgres://h1,h2:5432/db",
		"file:": "file:", "file:///srv/locks": "file:///srv/locks", "memory:test": "memory:test", "etcd://h?ttl=1s": "etcd://h",
	} {
		require.Equal(t, want, lockurl.Address(rawURL))
	}
}

func TestParams(t *testing.T) {
	p := of(t, "x://h1,h2:7?text=a&yes=true&no=false&n=3&d=5s&prefix=&addr=[::1]&addr=[::1]:2&addr=h4,h5&other=1")
	require.Equal(t, "a", p.Text("text"))
	require.Empty(t, p.Text("text"), "it has been read")
	require.Equal(t, []bool{true, false, true}, []bool{p.Bool("yes", false), p.Bool("no", true), p.Bool("absent", true)})
	require.Equal(t, 3, p.Int("n"))
	require.Equal(t, 5*time.Second, p.Duration("d"))
	prefix, none := p.Prefix()
	_, again := p.Prefix()
	require.Equal(t, []any{"", true, false}, []any{prefix, none, again})
	require.Equal(t, []string{"h1:9", "h2:7", "[::1]:9", "[::1]:2", "h4:9", "h5:9"}, p.Hosts("9"))
	require.Equal(t, url.Values{"other": {"1"}}, peer.Must(p.Rest())(t))
	require.EqualError(t, p.Err(), `unknown URL parameter "other" of a URL with the scheme x`)
}

func TestErrors(t *testing.T) {
	for raw, want := range map[string]string{
		"x://h?a=1&a=2":                  "the URL parameter a is given twice",
		"x://h?yes=1":                    `bad value "1" of the URL parameter yes: want true or false`,
		"x://h?n=0":                      `bad value "0" of the URL parameter n: want a number above 0`,
		"x://h?n=9223372036854775808":    `bad value "9223372036854775808" of the URL parameter n: want a number above 0`,
		"x://h?d=5":                      `bad value "5" of the URL parameter d: want something like 500ms`,
		"x://u:secret@h,":                `bad address "" in the URL: want host:port, several with commas between them`,
		"x://h?pool_size=0&pool_size=-1": `bad value "-1" of the URL parameter pool_size: no client can use it`,
		"x://h?max_idle_conns=-2&max_idle_conns=65536": `bad value "65536" of the URL parameter max_idle_conns: no client can use it`,
		"x://h?max_retries=-1&max_retries=-2":          `bad value "-2" of the URL parameter max_retries: no client can use it`,
		"x://h?addr=i%0A":                              `bad address "i\n" in the URL: want host:port, several with commas between them`,
		"x://h?addr=i:port":                            `bad address "i:port" in the URL: want host:port, several with commas between them`,
		"x://h?cert=a":                                 "the URL parameters cert and key belong together: give both or none",
		"x://h?addr=i%40j":                             `bad address "i@j" in the URL: want host:port, several with commas between them`,
		"x://h?ca=/no/file":                            "the URL parameter ca: open /no/file: no such file or directory",
		"x://h?ca=/dev/null":                           "the URL parameter ca: there is no certificate (PEM) in /dev/null",
	} {
		p := of(t, raw)
		p.Text("a")
		p.Bool("yes", false)
		p.Int("n")
		p.Duration("d")
		p.Hosts("1")
		p.TLS("h")
		p.ForGoRedis()
		require.EqualError(t, p.Err(), want, raw)
	}
	p := of(t, "x://h?key=k")
	p.NoTLS("tls=true")
	require.EqualError(t, peer.ErrOf(p.Rest()), "the URL parameter key needs tls=true")
	require.Equal(t, []string{"other", "h"}, []string{of(t, "x://h?servername=other").TLS("h").ServerName, of(t, "x://h").TLS("h").ServerName})
}

func TestPrefix(t *testing.T) {
	for _, c := range []struct {
		given, want string
		none, fails bool
	}{
		{"", "standard", false, false},
		{"own", "own", false, false},
		{"", "", true, false},
		{"own", "", true, true},
		{"\xff", "", false, true},
	} {
		got, err := lockurl.Prefix(c.given, c.none, "standard")
		require.Equal(t, []any{c.want, c.fails}, []any{got, err != nil}, c)
	}
}

// answer is a server's SQLSTATE, as of pgconn.PgError, which would be a dependency of every module.
type answer string

func (a answer) Error() string { return "(SQLSTATE " + string(a) + ")" }

func (a answer) SQLState() string { return string(a) }

// joinsNone is an error that could join others.
type joinsNone struct{ error }

func (joinsNone) Unwrap() []error { return nil }

func TestPgxCause(t *testing.T) {
	require.Equal(t, joinsNone{io.EOF}, lockurl.PgxCause(joinsNone{io.EOF}))
	const (
		a, b               = "10.0.0.1:5432 (a): ", "10.0.0.2:5432 (b): "
		down, noTLS, cut   = "dial error: refused", "tls error: server refused TLS connection", "tls error: EOF"
		entry, full, wrong = "28000", "53300", "28P01"
		pooler             = "SSL required (SQLSTATE 08P01)"
	)
	for _, tt := range []struct {
		tries []string
		want  int
	}{
		{[]string{a + entry, b + down}, 1}, {[]string{a + entry, b + full}, 1}, {[]string{a + down, b + entry}, 0}, {[]string{a + full, b + entry}, 0},
		{[]string{a + entry, b + entry}, 0}, {[]string{a + entry, b + wrong}, 1}, {[]string{a + down, b + wrong}, 1}, {[]string{a + "3D000"}, 0},
		{[]string{a + noTLS, a + entry}, 1}, {[]string{a + cut, a + entry}, 0}, {[]string{a + full, a + entry}, 0},
		{[]string{a + noTLS, a + down}, 1}, {[]string{a + full, a + pooler}, 0}, {[]string{a + noTLS, a + pooler}, 1}, {[]string{a + cut, b + noTLS, a + entry, b + entry}, 0},
	} {
		var all []error
		for _, try := range tt.tries {
			address, what, _ := strings.Cut(try, ": ")
			err := errors.New(what)
			if len(what) == 5 {
				err = answer(what)
			}
			all = append(all, fmt.Errorf("%s: %w", address, err))
		}
		require.Equal(t, all[tt.want], lockurl.PgxCause(errors.Join(all...)), tt.tries)
	}
}

func TestBadCertificate(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		server := httptest.NewUnstartedServer(nil)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.TLS = &tls.Config{MaxVersion: version, VerifyConnection: func(tls.ConnectionState) error { return io.EOF }}
		server.StartTLS()
		defer server.Close()
		for _, trusting := range []bool{true, false} {
			conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: trusting})
			if err == nil { // the alert of TLS 1.3
				_, err = conn.Read(make([]byte, 1))
			}
			require.True(t, lockurl.BadCertificate(err), err)
		}
	}
	require.True(t, lockurl.BadCertificate(x509.CertificateInvalidError{}))
	require.False(t, lockurl.BadCertificate(&net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}))
	require.False(t, lockurl.BadCertificate(&net.OpError{Op: "dial", Err: errors.New("lookup certificate.example.com: no such host")}))
}

func TestPgxAttempts(t *testing.T) {
	got := lockurl.PgxAttempts("failed to connect to `user=u database=d`:\n\tg:1 (g): tls error: refused\n\tg:1 (g): unexpected EOF\n\th:1 (h): dial error: timeout: context deadline exceeded\n\th:1 (h): dial error: timeout: context deadline exceeded\n\tm:1 (m): received unexpected message: %!w(<nil>)")
	require.Equal(t, "g:1 (g): tls error: refused; g:1 (g): no answer: is it a Postgres server?; h:1 (h): no connection in time; m:1 (m): is it a Postgres server?", got)
}
