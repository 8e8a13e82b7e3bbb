package main

import (
	"encoding/json"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// hidesPassword requires that the output about rawURL does not show its password.
func hidesPassword(t *testing.T, printed, rawURL string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	if password, ok := u.User.Password(); ok {
		require.NotContains(t, printed, password)
	}
}

// diagnosed runs doctor --json, and returns the exit code and the findings.
func diagnosed(t *testing.T, rawURL string) (int, diagnosis) {
	t.Helper()
	code, stdout, stderr := output(t, rawURL, "doctor", "--json")
	require.Empty(t, stderr)
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(stdout), &d), stdout)
	require.NotContains(t, stdout, "secret")
	hidesPassword(t, stdout, rawURL)
	return code, d
}

func (d diagnosis) ids() (endangers, unknown []string) {
	for _, f := range d.Endangers {
		endangers = append(endangers, f.ID)
	}
	for _, f := range d.Unknown {
		unknown = append(unknown, f.ID)
	}
	return endangers, unknown
}

// TestDoctorOfRedis: a healthy server, a user with few rights, and a server that forgets.
func TestDoctorOfRedis(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Password: "secret", Users: []string{"few on >secret ~* &* +@all -info"}})
	for url, want := range map[string]struct{ endangers, unknown []string }{
		s.URL():                      {},
		s.UserURL("few", "secret"):   {unknown: []string{"info"}},
		servers.SharedRedis(t).URL(): {endangers: []string{"persistence"}},
	} {
		code, d := diagnosed(t, url)
		require.Equal(t, len(want.endangers), code, "unknown settings are no findings")
		endangers, unknown := d.ids()
		require.Equal(t, want.endangers, endangers)
		require.Equal(t, want.unknown, unknown)
		require.EqualValues(t, 15_000, d.TTLMS)
		require.Equal(t, address(url), d.URL)
	}
}

// testInterrupted: Ctrl-C ends the wait for a silent server.
func testInterrupted(t *testing.T, direct string) {
	through, proxies := proxied(t, direct)
	proxies[0].Freeze()
	p := start(t, through, "run", "a", "--", "echo", "no")
	eventually(t, func() bool { return proxies[0].Conns() > 0 }, "it does not connect")
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	began := time.Now()
	require.Equal(t, 130, p.code(t), p.err.String())
	require.Less(t, time.Since(began), answerLimit/2)
	require.Empty(t, p.out.String()+p.err.String())
}
