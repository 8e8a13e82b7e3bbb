package redis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// examined is what Examine finds for claims of ttl.
func examined(t *testing.T, rawURL string, ttl time.Duration) driver.Examination {
	t.Helper()
	b, err := openURL(t.Context(), rawURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	found, err := b.(driver.Examiner).Examine(ctx, ttl)
	require.NoError(t, err)
	for _, n := range found.Notices {
		require.NotEmpty(t, n.Text)
		require.NotEmpty(t, n.Remedy)
		require.NotContains(t, n.Text+n.Remedy, "secret")
	}
	return found
}

const usualTTL = 15 * time.Second

func TestExamineAHealthyServer(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true})
	found := examined(t, s.URL(), usualTTL)
	require.Empty(t, found.Notices)
	require.Regexp(t, `^(Redis|Valkey) [0-9]+\.[0-9.]+$`, found.Server)
	require.Equal(t, int64(0), do(t, s, "DBSIZE"), "Examine leaves nothing")
}

func TestExamineSettings(t *testing.T) {
	for id, v := range map[string]struct {
		config []string
		ttl    time.Duration
	}{
		"idle-timeout":  {[]string{"timeout 10"}, usualTTL},
		"pubsub-buffer": {[]string{"client-output-buffer-limit pubsub 1024 512 60"}, usualTTL},
		"connections":   {[]string{"maxclients 4"}, usualTTL},
	} {
		t.Run(id, func(t *testing.T) {
			s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Config: v.config})
			require.Equal(t, []string{id}, ids(examined(t, s.URL(), v.ttl).Notices))
		})
	}
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Config: []string{"timeout 10"}})
	require.Empty(t, examined(t, s.URL(), 5*time.Second).Notices, "renewals come sooner")
}

func TestExamineClock(t *testing.T) {
	servers.NeedInstalled(t, servers.ClockInstalled())
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Clock: true})
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
	require.NoError(t, s.JumpClock(time.Minute))
	found := examined(t, s.URL(), usualTTL).Notices
	require.Equal(t, []string{"clock-offset"}, ids(found))
	require.Contains(t, found[0].Text, "ahead of")
	require.NoError(t, s.JumpClock(-2*time.Minute))
	require.Contains(t, examined(t, s.URL(), usualTTL).Notices[0].Text, "behind")
}

func TestExamineMemory(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, MaxMemory: "20mb"})
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
	for i := range 60 { // in pieces: it wants as much again for a moment
		info, err := s.Info(t.Context(), "memory")
		require.NoError(t, err)
		if used, _ := strconv.Atoi(info["used_memory"]); used > 19<<20 {
			break
		}
		do(t, s, "SET", fmt.Sprint("much", i), strings.Repeat("x", 400<<10))
	}
	require.Equal(t, []string{"memory"}, ids(examined(t, s.URL(), usualTTL).Notices))
	do(t, s, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru") // which Check tells of
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
}

// A script of somebody else's that took longer than a third of the TTL is named, without what it was about.
func TestExamineSlowCommands(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Own: true})
	const busy = `local t = redis.call('TIME'); local to = t[1] * 1000000 + t[2] + 400000
		repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > to; return ARGV[1]`
	do(t, s, "EVAL", busy, 0, "secret")
	found := examined(t, s.URL(), time.Second).Notices
	require.Equal(t, []string{"slow-commands"}, ids(found))
	require.Contains(t, found[0].Text, "(EVAL)")
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
}

func TestExamineDisk(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Save: "3600 1", Own: true, Config: []string{"dbfilename taken.rdb"}})
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir(), "taken.rdb"), 0o700))
	do(t, s, "BGSAVE")
	require.Eventually(t, func() bool {
		info, err := s.Info(t.Context(), "persistence")
		return err == nil && info["rdb_last_bgsave_status"] == "err"
	}, soon, 10*time.Millisecond)
	require.Equal(t, []string{"disk"}, ids(examined(t, s.URL(), usualTTL).Notices))
	do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
}

func TestExamineReplicas(t *testing.T) {
	master := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Own: true})
	servers.NeedReplica(t, master)
	require.Equal(t, []string{"min-replicas"}, ids(examined(t, master.URL(), usualTTL).Notices))
	do(t, master, "CONFIG", "SET", "min-replicas-to-write", 1)
	require.Empty(t, examined(t, master.URL(), usualTTL).Notices)
	require.Equal(t, []string{"replicas-to-spare"}, ids(examined(t, master.URL()+"?replicas=1", usualTTL).Notices))
	servers.NeedReplica(t, master)
	require.Empty(t, examined(t, master.URL()+"?replicas=1", usualTTL).Notices)
}

func TestExamineCluster(t *testing.T) {
	c := servers.NeedCluster(t, servers.RedisOptions{AppendOnly: true})
	rawURL := "redis+cluster://" + c.Addrs()[0]
	found := examined(t, rawURL, usualTTL)
	require.Equal(t, []string{"cluster-coverage"}, ids(found.Notices))
	require.Contains(t, found.Server, "a Cluster of 3 masters")
	for _, node := range c.Nodes {
		do(t, node, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	require.Empty(t, examined(t, rawURL, usualTTL).Notices)
}

func TestExamineSentinel(t *testing.T) {
	s := servers.NeedSentinel(t, servers.SentinelOptions{Redis: servers.RedisOptions{AppendOnly: true, Config: []string{"min-replicas-to-write 1"}}})
	rawURL := "redis+sentinel://" + s.Addrs()[0] + "?master_name=" + s.MasterName()
	found := examined(t, rawURL, usualTTL)
	require.Empty(t, found.Notices)
	require.Contains(t, found.Server, "behind Sentinel")
	do(t, s.Sentinels[0], "SENTINEL", "SET", s.MasterName(), "quorum", 1)
	require.Equal(t, []string{"sentinel-quorum"}, ids(examined(t, rawURL, usualTTL).Notices))
	do(t, s.Sentinels[0], "SENTINEL", "SET", s.MasterName(), "quorum", 2)
	for _, other := range s.Sentinels[1:] {
		require.NoError(t, other.Kill())
	}
	do(t, s.Sentinels[0], "SENTINEL", "RESET", s.MasterName()) // it finds the others again, if they are there
	require.Eventually(t, func() bool {
		notices := examined(t, rawURL, usualTTL).Notices
		return len(notices) == 1 && notices[0].ID == "sentinels" && !notices[0].Unknown
	}, soon, 50*time.Millisecond)

	// A client that somebody else has made does not say who its sentinels are.
	client := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: s.MasterName(), SentinelAddrs: s.Addrs()[:1]})
	t.Cleanup(func() { _ = client.Close() })
	b, err := NewBackend(client, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	own, err := b.Examine(t.Context(), usualTTL)
	require.NoError(t, err)
	require.Equal(t, []string{"sentinels?"}, ids(own.Notices))
}

func TestJudgeSentinels(t *testing.T) {
	for _, v := range []struct {
		others, quorum string
		want           []string
	}{
		{"2", "2", nil}, {"4", "3", nil}, {"1", "2", []string{"sentinels"}}, {"0", "1", []string{"sentinels", "sentinel-quorum"}},
		{"2", "1", []string{"sentinel-quorum"}}, {"", "2", []string{"sentinels?"}}, {"2", "", []string{"sentinels?"}},
	} {
		require.Equal(t, v.want, ids(judgeSentinels(map[string]string{"num-other-sentinels": v.others, "quorum": v.quorum})), "%+v", v)
	}
}

func TestExamineVersion(t *testing.T) {
	for version, want := range map[string][]string{
		"7.0.4": {"clock-offset?", "version", "settings?"}, "7.0.5": {"clock-offset?", "settings?"}, "6.2.14": {"clock-offset?", "settings?"},
	} {
		found := examined(t, servers.NewFakeRedis(t, version).URL(), usualTTL)
		require.Equal(t, want, ids(found.Notices), version)
		require.Equal(t, "Redis "+version, found.Server)
	}
}

func TestExamineAsARestrictedUser(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{AppendOnly: true, Users: []string{
		"noconfig on >secret ~* &* +@all -config", "noslowlog on >secret ~* &* +@all -slowlog", "noinfo on >secret ~* &* +@all -info",
		"notime on >secret ~* &* +@all -time",
	}})
	for user, want := range map[string][]string{
		"noconfig": {"settings?"}, "noslowlog": {"settings?"}, "noinfo": {"info?"}, "notime": {"clock-offset?"},
	} {
		require.Equal(t, want, ids(examined(t, s.UserURL(user, "secret"), usualTTL).Notices), user)
	}
}

func TestExamineIsBounded(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Own: true})
	b, err := openURL(t.Context(), s.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	require.NoError(t, s.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = b.(driver.Examiner).Examine(ctx, usualTTL)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, s.Kill())
	_, err = b.(driver.Examiner).Examine(t.Context(), usualTTL)
	saysOneLine(t, err, driver.ErrUnavailable, "")
}
