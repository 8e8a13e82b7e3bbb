package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
	"github.com/lockport/lockport/internal/lab/servers"
)

func examined(t *testing.T, o Options, addrs ...string) driver.Examination {
	t.Helper()
	found, err := newBackend(t, o, addrs...).Examine(within(t, soon), 0)
	require.NoError(t, err)
	return found
}

// idsOf are the notices, "?" behind those that are unknown, without that about the version, which depends on what is installed.
func idsOf(t *testing.T, notices []driver.Notice) (ids []string) {
	t.Helper()
	for _, n := range notices {
		require.NotEmpty(t, n.Text)
		require.NotEmpty(t, n.Remedy)
		require.NotContains(t, n.Text+n.Remedy, "secret")
		id := n.ID
		if n.Unknown {
			id += "?"
		}
		if id != "version" && id != "end-of-life" {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestExamineOneServer(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	found := examined(t, Options{TTL: 15 * time.Second}, s.Addr())
	require.Equal(t, []string{"quorum"}, idsOf(t, found.Notices))
	require.Equal(t, 15*time.Second, found.TTL)
	require.Regexp(t, `^ZooKeeper [0-9]+\.[0-9]+\.[0-9]+$`, found.Server)
	for _, n := range found.Notices {
		require.NotEqual(t, "version", n.ID, "it stands alone, and those errors are of several")
	}
}

func TestExamineTimes(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{TickTime: 200 * time.Millisecond, Config: []string{"maxSessionTimeout=3000"}})
	require.Equal(t, []string{"ttl-ticks", "quorum"}, idsOf(t, examined(t, Options{TTL: 900 * time.Millisecond}, s.Addr()).Notices))
	require.Equal(t, []string{"quorum"}, idsOf(t, examined(t, Options{TTL: time.Second}, s.Addr()).Notices))
	found := examined(t, Options{TTL: 5 * time.Second}, s.Addr())
	require.Equal(t, []string{"session-timeout", "quorum"}, idsOf(t, found.Notices))
	require.Equal(t, 3*time.Second, found.TTL)
}

func TestExamineAnEnsemble(t *testing.T) {
	e := servers.NeedEnsemble(t, servers.ZooKeeperOptions{})
	o := Options{TTL: 5 * time.Second}
	found := examined(t, o, e.Addrs()...)
	require.Empty(t, idsOf(t, found.Notices))
	version := strings.TrimPrefix(found.Server, "ZooKeeper ")
	require.Equal(t, len(examine.Defects("", "ZooKeeper", version, defects)) > 0, slices.ContainsFunc(found.Notices, func(n driver.Notice) bool { return n.ID == "version" }))
	require.Equal(t, []string{"endpoints"}, idsOf(t, examined(t, o, e.Addrs()[0]).Notices))
	require.NoError(t, e.Nodes[2].Kill())
	b := newBackend(t, o, e.Addrs()...)
	require.Eventually(t, func() bool { // while there is no leader, it is no answer at all
		found, err := b.Examine(within(t, soon), 0)
		return err == nil && fmt.Sprint(idsOf(t, found.Notices)) == "[endpoints-away]"
	}, 30*time.Second, 100*time.Millisecond)
}

func TestExamineConnections(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"maxClientCnxns=4"}})
	b := newBackend(t, Options{TTL: 5 * time.Second}, s.Addr())
	found, err := b.Examine(within(t, soon), 0)
	require.NoError(t, err)
	require.Equal(t, []string{"quorum"}, idsOf(t, found.Notices))
	for range 2 {
		_, err := newBackend(t, Options{TTL: 5 * time.Second}, s.Addr()).live(within(t, soon))
		require.NoError(t, err)
	}
	found, err = b.Examine(within(t, soon), 0)
	require.NoError(t, err)
	require.Equal(t, []string{"quorum", "connections"}, idsOf(t, found.Notices))
}

// What a server does not tell is unknown.
func TestExamineAServerThatTellsLittle(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"4lw.commands.whitelist=conf"}})
	found := examined(t, Options{TTL: 5 * time.Second}, s.Addr())
	require.Equal(t, []string{"quorum", "four-letter-words?"}, idsOf(t, found.Notices))
	require.Contains(t, found.Notices[len(found.Notices)-1].Text, "does not answer cons, so it is not known how many are in use.")

	s = servers.NeedZooKeeper(t, servers.ZooKeeperOptions{JVM: []string{"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:" +
		strings.TrimPrefix(zk.DigestACL(zk.PermAll, "super", "secret")[0].ID, "super:")}})
	conn, _, err := zk.Connect([]string{s.Addr()}, 5*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.AddAuth("digest", []byte("super:secret")))
	_, err = conn.SetACL(membersPath, zk.AuthACL(zk.PermAll), -1)
	require.NoError(t, err)
	require.Equal(t, []string{"quorum?"}, idsOf(t, examined(t, Options{TTL: 5 * time.Second}, s.Addr()).Notices))
}

func TestJudgeMembers(t *testing.T) {
	const voter, observer = "server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181\n", "server.4=10.0.0.4:2888:3888:observer;0.0.0.0:2181\n"
	for text, want := range map[string]string{
		"": "quorum", voter: "quorum", voter + voter: "quorum", voter + voter + observer + "version=0": "quorum",
		voter + voter + voter + "version=100000000": "endpoints",
	} {
		require.Equal(t, []string{want}, idsOf(t, judgeMembers(text, []string{"a"})), text)
	}
	require.Empty(t, judgeMembers(strings.Repeat(voter, 3), []string{"a", "b"}))
}

func TestJudgeServers(t *testing.T) {
	said := func(version, conf, cons string) server {
		return server{address: "a:1", us: "10.0.0.9:5", answers: map[string]string{
			"srvr": "Zookeeper version: " + version + ", built on 2022-02-25 08:49 UTC\nMode: follower\n", "conf": conf, "cons": cons,
		}}
	}
	const mine = " /10.0.0.9:1[1](queued=0,recved=1)\n /10.0.0.9:5[0](queued=0)\n /10.0.0.8:2[1](queued=0)\n /10.0.0.9:3[1](queued=0)\n"
	for want, s := range map[string]server{
		"version":             said("3.8.0-${mvnGitCommitId}", "maxClientCnxns=0\n", mine),
		"version end-of-life": said("3.5.9-83df9301aa5c2a5d284a9940177808c01bc35cef", "maxClientCnxns=60\n", mine),
		"connections":         said("3.9.4", "maxClientCnxns=3\n", mine),
		"":                    said("3.9.4", "maxClientCnxns=4\n", mine),
		"end-of-life":         said("3.7.2", "maxClientCnxns=4\n", mine),
	} {
		var ids []string
		for _, n := range judgeServers([]server{s}) {
			ids = append(ids, n.ID)
		}
		require.Equal(t, want, strings.Join(ids, " "))
	}
}

func TestDefects(t *testing.T) {
	for version, known := range map[string]bool{
		"3.5.9": true, "3.5.10": false, "3.6.4": false, "3.8.0": true, "3.8.3": true, "3.8.4": false,
		"3.9.1": true, "3.9.2": true, "3.9.3": true, "3.9.4": false,
	} {
		require.Equal(t, known, len(examine.Defects("", "ZooKeeper", version, defects)) > 0, version)
	}
}

func TestPasswordInTheClear(t *testing.T) {
	require.True(t, newBackend(t, Options{Username: "u", Password: "secret"}, "zk.example.com").clear)
	require.False(t, newBackend(t, Options{}, "zk.example.com").clear)
	o := Options{Username: "u", Password: "secret"}
	_, err := o.prepare([]string{"a"})
	require.NoError(t, err)
	require.False(t, newBackend(t, o, "zk.example.com").clear, "a dialler of the caller's may be TLS")
}

func TestExamineIsBounded(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	b := newBackend(t, Options{TTL: 5 * time.Second}, s.Addr())
	_, err := b.Examine(within(t, soon), 0)
	require.NoError(t, err)
	require.NoError(t, s.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = b.Examine(ctx, 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, s.Kill())
	_, err = b.Examine(within(t, 2*time.Second), 0)
	require.ErrorIs(t, err, driver.ErrUnavailable)
}
