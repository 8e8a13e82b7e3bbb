package main

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lockurl"
)

// TestDoctorOfRedis: a healthy server, a user with few rights, and a server that forgets.
func TestDoctorOfRedis(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{
		Password: "secret", Users: []string{"few on >secret ~* &* +@all -info"}, Config: []string{"appendonly yes", "appendfsync always"},
	})
	for url, want := range map[string]struct {
		code int
		ids  []string
	}{
		s.URL():                      {},
		s.UserURL("few", "secret"):   {0, []string{"info"}}, // an unknown setting is no finding
		servers.SharedRedis(t).URL(): {1, []string{"persistence"}},
	} {
		stdout, stderr := ran(t, want.code, url, "doctor", "--json")
		require.Empty(t, stderr)
		require.NotContains(t, stdout, "secret")
		var d diagnosis
		require.NoError(t, json.Unmarshal([]byte(stdout), &d), stdout)
		var ids []string
		for _, f := range append(d.Endangers, d.Unknown...) {
			ids = append(ids, f.ID)
		}
		require.Equal(t, want.ids, ids)
		require.EqualValues(t, 15_000, d.TTLMS)
		require.Equal(t, lockurl.Address(url), d.URL)
	}
}

// testInterrupted: Ctrl-C ends the wait for a silent server.
func testInterrupted(t *testing.T, direct string) {
	through, proxies := proxied(t, direct)
	proxies[0].Freeze()
	for _, args := range [][]string{{"run", "a", "--", "echo", "no"}, {"conform"}} {
		before := proxies[0].Conns()
		p := start(t, through, args...)
		eventually(t, func() bool { return proxies[0].Conns() > before }, "it does not connect")
		began := time.Now()
		p.ends(t, syscall.SIGINT, 130)
		require.Less(t, time.Since(began), answerLimit/2)
		require.Empty(t, p.out.String()+p.err.String())
	}
}
