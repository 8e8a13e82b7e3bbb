package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redischeck"
)

const usualTTL = 15 * time.Second

// examined are the notices of Examine, "?" behind those that are unknown, and what the server is.
func examined(t *testing.T, rawURL string, ttl time.Duration) (found []string, server string) {
	t.Helper()
	b, err := openURL(t.Context(), rawURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	e, err := b.(driver.Examiner).Examine(t.Context(), ttl)
	require.NoError(t, err)
	for _, n := range e.Notices {
		require.NotEmpty(t, n.Text)
		require.NotEmpty(t, n.Remedy)
		id := n.ID
		if n.Unknown {
			id += "?"
		}
		found = append(found, id)
	}
	return found, e.Server
}

func addressed(nodes []*servers.Redis) string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	return urlOf(addrs...)
}

// here is what is found of healthy nodes, since those of a test are on one machine.
var here = []string{"same-host"}

func TestExamineNodes(t *testing.T) {
	servers.NeedInstalled(t, servers.ClockInstalled())
	durable := servers.RedisOptions{AppendOnly: true, Own: true}
	aside := durable
	aside.Clock = true
	nodes := []*servers.Redis{servers.NeedRedis(t, durable), servers.NeedRedis(t, durable), servers.NeedRedis(t, aside)}
	rawURL := addressed(nodes)
	found, server := examined(t, rawURL, usualTTL)
	require.Equal(t, here, found)
	require.Regexp(t, "^3 nodes, (Redis|Valkey) ", server)

	require.NoError(t, nodes[2].JumpClock(time.Minute))
	found, _ = examined(t, rawURL, usualTTL)
	require.Equal(t, append([]string{"clock-offset"}, here...), found)
	require.NoError(t, nodes[2].JumpClock(-time.Minute))

	_, err := nodes[1].Do(t.Context(), "CONFIG", "SET", "timeout", 5)
	require.NoError(t, err)
	found, _ = examined(t, rawURL, usualTTL)
	require.Equal(t, append([]string{"idle-timeout"}, here...), found)
	_, err = nodes[1].Do(t.Context(), "CONFIG", "SET", "timeout", 0, "appendfsync", "everysec")
	require.NoError(t, err)
	found, _ = examined(t, rawURL, time.Hour)
	require.Equal(t, append([]string{"restarted"}, here...), found, "it has been there for less than an hour")

	// A minority that is away is Check's affair; of a majority nothing can be said.
	require.NoError(t, nodes[1].Kill())
	found, _ = examined(t, rawURL, time.Hour)
	require.Equal(t, here, found)
	require.NoError(t, nodes[0].Kill())
	b, err := openURL(t.Context(), rawURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	_, err = b.(driver.Examiner).Examine(t.Context(), usualTTL)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NotContains(t, err.Error(), "\n")
}

func TestExamineIsBounded(t *testing.T) {
	var nodes []*servers.Redis
	for range 3 {
		nodes = append(nodes, servers.NeedRedis(t, servers.RedisOptions{Own: true}))
	}
	b, err := openURL(t.Context(), addressed(nodes))
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	for _, n := range nodes {
		require.NoError(t, n.Freeze())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = b.(driver.Examiner).Examine(ctx, usualTTL)
	require.ErrorIs(t, err, driver.ErrUnavailable)
}

func TestExamineAsARestrictedUser(t *testing.T) {
	o := servers.RedisOptions{AppendOnly: true, Users: []string{"few on >secret ~* &* +@all -config -time"}}
	var nodes []*servers.Redis
	for range 3 {
		nodes = append(nodes, servers.NeedRedis(t, o))
	}
	rawURL := strings.Replace(addressed(nodes), "redlock://", "redlock://few:secret@", 1)
	found, _ := examined(t, rawURL, 0)
	require.Equal(t, append([]string{"clock-offset?", "settings?"}, here...), found)
}

func TestJudgeNodes(t *testing.T) {
	at := func(addr string, ahead time.Duration, uptime string, durable bool) *nodeExam {
		return &nodeExam{addr: addr, durable: durable, server: redischeck.Server{Ahead: ahead, Info: map[string]string{"uptime_in_seconds": uptime}}}
	}
	found := judgeNodes([]*nodeExam{at("a", 700*time.Millisecond, "100", false), at("c", 0, "3", true), at("b", -700*time.Millisecond, "3", false)}, usualTTL)
	require.Len(t, found.Notices, 2)
	require.Equal(t, "restarted", found.Notices[0].ID)
	require.Contains(t, found.Notices[0].Text, "Node b was started 3s ago")
	require.Equal(t, "clock-offset", found.Notices[1].ID)
	require.Contains(t, found.Notices[1].Text, "node a is 1.4s ahead of that of node b")
	require.Empty(t, judgeNodes([]*nodeExam{at("a", 999*time.Millisecond, "15", false), at("b", 0, "", false)}, usualTTL).Notices)
}

func TestNodesOfSeveralVersions(t *testing.T) {
	b, err := openURL(t.Context(), "redlock://a,b,c")
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	of := func(versions ...string) (found []*nodeCheck) {
		for _, v := range versions {
			found = append(found, &nodeCheck{info: map[string]string{"redis_version": v}})
		}
		return found
	}
	notices, err := b.(*Backend).judge(of("7.0.15", "7.0.15", "7.0.15"))
	require.NoError(t, err)
	require.Empty(t, notices)
	notices, err = b.(*Backend).judge(of("7.0.15", "7.2.4", "7.0.15"))
	require.NoError(t, err)
	require.Equal(t, []string{"versions"}, ids(notices))
}

func TestSameHost(t *testing.T) {
	require.Empty(t, sameHost(map[string][]string{"10.0.0.1": {"a:1"}, "10.0.0.2": {"b:1"}}))
	got := sameHost(map[string][]string{"10.0.0.1": {"a:1", "a:2"}, "10.0.0.2": {"b:1"}})
	require.Len(t, got, 1)
	require.Contains(t, got[0].Text, "The nodes a:1 and a:2 are on one machine")
}
