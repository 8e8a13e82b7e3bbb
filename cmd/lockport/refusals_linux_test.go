package main

import (
	"testing"

	"github.com/lockport/lockport/internal/lab/servers"
)

// testRefusals: what is wrong with a server, or its URL, is said in one line.
func testRefusals(t *testing.T, server string) {
	secured := servers.NeedRedis(t, servers.RedisOptions{Password: "right-secret"})
	for _, tt := range []struct {
		url  string
		code int
		line string
	}{
		{server + "?speed=high", 64, "speed"},
		{server + "?ttl=1ms", 64, "TTL"},
		{"redis://" + servers.Nobody(t), 69, "refused"},
		{"redis://no-such-host.invalid", 69, "no-such-host.invalid"},
		{"redis://:wrong-secret@" + secured.Addr(), 69, "WRONGPASS"},
		{"redis://" + secured.Addr(), 69, "NOAUTH"},
		{"redis://" + servers.NewFakeRedis(t, "5.0.14"), 69, "6.2"},
		{"etcd://" + servers.Nobody(t), 69, "running"},
		{"zookeeper://" + servers.Nobody(t), 69, "refused"},
		{"postgres://u:secret@" + servers.Nobody(t) + "/db", 69, "refused"},
		{"mysql://u:secret@" + servers.Nobody(t) + "/db", 69, "refused"},
		{"redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", 69, "refused"},
	} {
		refuses(t, tt.url, tt.code, tt.line, "run", "a", "--", "echo", "no")
	}
}
