package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// unusable is a URL that cannot be used for locks: the exit code, and a piece of the one line that says why.
type unusable struct {
	url  string
	code int
	line string
}

// unusableURLs are like a server's own, with something wrong.
func unusableURLs(t *testing.T, server string) []unusable {
	u, err := url.Parse(server)
	require.NoError(t, err)
	nobody, host := servers.Nobody(t), u.Host
	common := unusable{server + "?speed=high", 64, "speed"}
	switch scheme(server) {
	case "redis":
		secured := servers.NeedRedis(t, servers.RedisOptions{Password: "right-secret"}).Addr()
		replica := servers.NeedReplica(t, servers.NeedRedis(t, servers.RedisOptions{}))
		return []unusable{
			common,
			{"redis://" + nobody, 69, "refused"},
			{"redis://no-such-host.invalid", 69, "no-such-host.invalid"},
			{"redis://:wrong-secret@" + secured, 69, "WRONGPASS"},
			{"redis://" + secured, 69, "NOAUTH"},
			{"redis://" + servers.NewFakeRedis(t, "5.0.14"), 69, "6.2"},
			{replica.URL(), 69, "replica"},
			{servers.NeedRedis(t, servers.RedisOptions{MaxMemory: "1"}).URL(), 69, "memory"},
			{server + "?ttl=1ms", 64, "TTL"},
		}
	case "redlock":
		return []unusable{
			common,
			{"redlock://" + nobody + ",127.0.0.1:1", 64, "at least 3"},
			{"redlock://" + nobody + ",127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", 64, "odd"},
			{"redlock://" + nobody + ",127.0.0.1:1," + nobody, 64, "twice"},
			{"redlock://127.0.0.1:1,127.0.0.1:2," + nobody, 69, "refused"},
		}
	case "etcd":
		secured := servers.NeedEtcd(t, servers.EtcdOptions{RootPassword: "right-secret"}).Addr()
		return []unusable{
			common,
			{"etcd://" + nobody, 69, nobody},
			{"etcd://root:wrong-secret@" + secured, 69, "password"},
			{"etcd://" + secured, 69, "user"},
			{server + "?ttl=100ms", 64, "TTL"},
		}
	case "zookeeper":
		return []unusable{common, {"zookeeper://" + nobody, 69, nobody}, {server + "?ttl=150ms", 69, "TTL"}}
	default: // databases
		return []unusable{
			common,
			{scheme(server) + "://u:secret@" + nobody + "/db", 69, nobody},
			{scheme(server) + "://lockport:wrong-secret@" + host + "/lockport", 69, "password"},
			{strings.TrimSuffix(server, "lockport") + "nowhere", 69, "nowhere"},
		}
	}
}

func testRefusals(t *testing.T, server string) {
	for _, tt := range unusableURLs(t, server) {
		refuses(t, tt.url, tt.code, tt.line, "run", "a", "--", "echo", "no")
	}
}
