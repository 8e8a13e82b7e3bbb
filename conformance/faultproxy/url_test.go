package faultproxy

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForURL(t *testing.T) {
	a, b := newServer(t).Addr().String(), newServer(t).Addr().String()
	for raw, servers := range map[string]int{
		"redis://u:pw@" + a + "/1?prefix=x":               1,
		"redlock://u:pw@" + a + "," + b + "/1?prefix=x":   2,
		"etcd://" + a + "," + b:                           2,
		"zookeeper://" + a + "," + b + "/chroot?ttl=2s":   2,
		"postgres://u:p%40w@" + a + "/db?sslmode=disable": 1,
		"mysql://u@" + a + "/":                            1,
		"redlock://" + a + "?addr=" + b:                   0,
		"mysql://u@" + a + "/db?tls=true":                 0,
		"mysql://u@" + a + "/db?tls=true&servername=x":    1,
		"postgres://u@" + a + "/db?sslmode=verify-full":   0,
		"redlocks://" + a:                                 0,
		"etcds://" + a:                                    0,
		"redis+sentinel://" + a:                           0,
		"file:///tmp":                                     0,
		"postgres:///db?host=/run/postgresql":             0,
		"table+postgres://u@" + a + "/db?host=h":          0,
		"table+postgres://u@" + a + "/db?port=1":          0,
	} {
		through, all, err := ForURL(raw)
		require.NoError(t, err, raw)
		require.Len(t, all, servers, raw)
		if servers == 0 {
			require.Equal(t, raw, through)
			continue
		}
		u, err := url.Parse(through)
		require.NoError(t, err)
		hosts := strings.Split(u.Host, ",")
		require.Len(t, hosts, servers)
		u.Host = strings.Join([]string{a, b}[:servers], ",")
		require.Equal(t, raw, u.String(), "all but the addresses is as it was")
		for i, host := range hosts {
			require.Equal(t, all[i].Addr(), host)
			dial(t, all[i]).call("x")
			require.Equal(t, int64(i+1), all.Requests())
		}
		all.Each(func(p *Proxy) { require.Equal(t, int64(1), p.Requests()) })
		all.Close()
		all.Each(func(p *Proxy) { wantGone(t, p) })
	}
}

func TestForURLThatIsMalformed(t *testing.T) {
	for _, raw := range []string{"redis://u:secret@h:port/", "redlock://u:secret@h,", "redis://u:secret@h?tls=true&tls=false"} {
		_, all, err := ForURL(raw)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
		require.Empty(t, all)
	}
}
