package servers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoServerRunsAsRoot looks at the processes of every kind, and at their children's.
func TestNoServerRunsAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("runs as another user than root, and so do its servers")
	}
	one := func(s *server) []*server { return []*server{s} }
	for kind, start := range map[string]func(t *testing.T) []*server{
		"redis": func(t *testing.T) []*server { return one(SharedRedis(t).server) },
		"clock": func(t *testing.T) []*server {
			NeedInstalled(t, ClockInstalled())
			return one(NeedRedis(t, RedisOptions{Clock: true}).server)
		},
		"etcd":      func(t *testing.T) []*server { return one(SharedEtcd(t).server) },
		"current":   func(t *testing.T) []*server { return one(NeedEtcd(t, EtcdOptions{Current: true}).server) },
		"zookeeper": func(t *testing.T) []*server { return one(SharedZooKeeper(t).server) },
		"postgres":  func(t *testing.T) []*server { return one(SharedPostgres(t).server) },
		"mariadb":   func(t *testing.T) []*server { return one(SharedMariaDB(t).server) },
		"mysql":     func(t *testing.T) []*server { return one(NeedMariaDB(t, MariaDBOptions{MySQL: true}).server) },
		"pgbouncer": func(t *testing.T) []*server {
			return one(NeedPgBouncer(t, PgBouncerOptions{Server: SharedPostgres(t)}).server)
		},
		"sentinel": func(t *testing.T) (all []*server) {
			s := NeedSentinel(t, SentinelOptions{})
			for _, r := range append(s.Nodes, s.Sentinels...) {
				all = append(all, r.server)
			}
			return all
		},
		"cluster": func(t *testing.T) (all []*server) {
			for _, r := range NeedCluster(t, RedisOptions{}).Nodes {
				all = append(all, r.server)
			}
			return all
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for _, s := range start(t) {
				pids := []int{s.proc.pid()}
				for _, c := range childrenOf(s.proc.pid()) {
					pids = append(pids, c.Pid)
				}
				for _, pid := range pids {
					status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
					if os.IsNotExist(err) && pid != pids[0] {
						continue // a child that has ended
					}
					require.NoError(t, err)
					for line := range strings.Lines(string(status)) {
						if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
							require.NotContains(t, strings.Fields(ids), "0")
						}
					}
				}
			}
		})
	}
}

// What a server of root's cannot enter is an error that says what to do.
func TestClosedTemporaryFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	t.Setenv("TMPDIR", dir)
	_, err := StartRedis(t.Context(), RedisOptions{})
	require.ErrorContains(t, err, "set TMPDIR to another folder")
	wantEmpty(t, dir)
}
