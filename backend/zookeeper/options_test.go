package zookeeper

import (
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	b := peer.Must(ConnectBackend([]string{"a", "b:1", "[::1]:2"}, Options{Chroot: "/x/y/"}))(t)
	require.Equal(t, []string{"a:2181", "b:1", "[::1]:2"}, b.addresses)
	require.Equal(t, []any{"/x/y", 15 * time.Second, world, false}, []any{b.o.Chroot, b.Capabilities().FixedTTL, b.o.ACL, b.plaintext})
	b = peer.Must(ConnectBackend([]string{"a"}, Options{Username: "u", Password: "p:q", Chroot: "/"}))(t)
	require.Equal(t, []any{zk.AuthACL(zk.PermAll), "", true}, []any{b.o.ACL, b.o.Chroot, b.plaintext})
	o := Options{Username: "u", Password: "p", Dial: new(net.Dialer).DialContext, ACL: zk.WorldACL(zk.PermRead), Log: &Log{To: zk.DefaultLogger}}
	b = peer.Must(ConnectBackend([]string{"a"}, o))(t)
	require.Equal(t, []any{o.ACL, o.Log, false}, []any{b.o.ACL, b.o.Log, b.plaintext}, "the caller's dialer may use TLS")

	for what, o := range map[string]Options{
		"slash":         {Chroot: "x"},
		"reserved":      {Chroot: "/zookeeper/locks"},
		"milliseconds":  {TTL: 1500 * time.Microsecond},
		"TTL is -1s":    {TTL: -time.Second},
		"TTL is 600h":   {TTL: 600 * time.Hour},
		"TickTime":      {TickTime: -1},
		"without a use": {Password: "secret"},
		"colon":         {Username: "u:v", Password: "secret"},
	} {
		_, err := Connect([]string{"a"}, o)
		require.ErrorContains(t, err, what)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, servers := range [][]string{nil, {""}, {"a:"}, {"::1"}} {
		require.Error(t, peer.ErrOf(Connect(servers, Options{})))
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	b := peer.Opened(t, "zookeeper://us%40er:p%3Aw@h1,h2:2181/locks/x?ttl=4s&tick_time=500ms&addr=[::1]:3").(*Backend)
	require.Equal(t, []string{"h1:2181", "h2:2181", "[::1]:3"}, b.addresses)
	require.Equal(t, []string{"us@er", "p:w", "/locks/x"}, []string{b.o.Username, b.o.Password, b.o.Chroot})
	require.Equal(t, []time.Duration{4 * time.Second, 500 * time.Millisecond}, []time.Duration{b.o.TTL, b.tick})
	peer.BadURLs(t, map[string]string{
		"zookeeper:///x": "", "zookeeper://h?x=1": "", "zookeeper://h?tick_time=soon": "", "zookeeper://h?tick_time=1s&tick_time=2s": "",
		"zookeeper://u:secret@,h": "", "zookeeper:h": "", "zookeeper://h#x": "", "zookeeper://h?ttl=1us": "", "zookeeper://u%3Av:secret@h": "",
	})
}
