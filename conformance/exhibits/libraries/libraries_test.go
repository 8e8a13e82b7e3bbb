package libraries_test

import (
	"bytes"
	"encoding/binary"
	"net/url"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits/libraries"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// world is the server of an exhibit: its target, the same past the proxy, and the requests that a release makes.
type world struct {
	target, direct string
	proxy          *faultproxy.Proxy
	release        func(request []byte) bool
}

// worlds start the servers. target puts a proxy's address into the target of a server.
var worlds = map[libraries.Server]func(t *testing.T) *world{
	libraries.Etcd: func(t *testing.T) *world {
		w := behind(t, servers.NeedEtcd(t, servers.EtcdOptions{}).Addr(), func(addr string) string { return addr })
		w.release = deletesKey
		return w
	},
	libraries.ZooKeeper: func(t *testing.T) *world {
		return behind(t, servers.NeedZooKeeper(t, servers.ZooKeeperOptions{}).Addr(), func(addr string) string { return addr })
	},
	libraries.Postgres: func(t *testing.T) *world {
		p := servers.NeedPostgres(t, servers.PostgresOptions{})
		return behind(t, p.Addr(), func(addr string) string {
			u, err := url.Parse(p.URL())
			require.NoError(t, err)
			u.Host = addr
			return u.String()
		})
	},
	libraries.MySQL: func(t *testing.T) *world {
		m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
		return behind(t, m.Addr(), func(addr string) string {
			config, err := mysql.ParseDSN(m.DSN())
			require.NoError(t, err)
			config.Addr = addr
			return config.FormatDSN()
		})
	},
}

// behind puts a proxy before a server.
func behind(t *testing.T, addr string, target func(addr string) string) *world {
	proxy, err := faultproxy.New(addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return &world{target: target(proxy.Addr()), direct: target(addr), proxy: proxy}
}

// deletesKey finds the deletion of one key among the messages in the frames of HTTP/2.
func deletesKey(request []byte) bool {
	for len(request) >= 9 {
		size, kind, body := int(binary.BigEndian.Uint32(request)>>8), request[3], request[9:]
		if size > len(body) {
			break
		}
		if kind == 0 && size > 7 {
			message := body[5:size]
			if message[0] == 10 && int(message[1]) == len(message)-2 && bytes.HasPrefix(message[2:], []byte(libraries.EtcdPrefix)) {
				return true
			}
		}
		request = body[size:]
	}
	return false
}

// Each bug of somebody's lock, on a real server, fails the cases that it is said to fail, and these say why. The same lock without the bug passes
// them, there and then.
func TestLibraries(t *testing.T) {
	for _, x := range libraries.All() {
		t.Run(x.Name, func(t *testing.T) {
			t.Parallel()
			w := worlds[x.Server](t)
			cfg := conformance.Config{Open: x.Open, Target: w.target, Direct: w.direct}
			cfg.Faults = faultproxy.Group{w.proxy}.Faults(func(op conformance.Op, request []byte) bool {
				return op == conformance.OpRelease && w.release != nil && w.release(request)
			})
			run := func() []conformance.Result {
				report := conformance.Run(t.Context(), cfg, conformance.Match(func(c conformance.Case) bool { return slices.Contains(x.CaughtBy, c.ID()) }))
				require.Empty(t, report.Error)
				require.Len(t, report.Results, len(x.CaughtBy), "%v are not all cases", x.CaughtBy)
				return report.Results
			}
			for _, res := range run() {
				t.Logf("VERDICT library %s | %s | %s", x.Name, res.ID(), res.Outcome)
				require.Equal(t, conformance.Fail, res.Outcome, "%s does not catch a lock of which this is true: %s (%s)", res.ID(), x.Is, res.Reason)
				require.Contains(t, res.Message(), res.Rule)
				require.Contains(t, res.Reason, x.Sees)
			}
			cfg.Open = x.OpenSound
			for _, res := range run() {
				t.Logf("VERDICT library-sound %s | %s | %s", x.Name, res.ID(), res.Outcome)
				require.Equal(t, conformance.Pass, res.Outcome, "%s of the lock without the bug: %s", res.ID(), res.Message())
			}
		})
	}
}
