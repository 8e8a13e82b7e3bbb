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
	require.Equal(t, "/x/y", b.o.Chroot)
	require.Equal(t, 15*time.Second, b.Capabilities().FixedTTL)
	require.Equal(t, zk.WorldACL(zk.PermAll), b.o.ACL)
	require.False(t, b.plaintext)
	b = peer.Must(ConnectBackend([]string{"a"}, Options{Username: "u", Password: "p:q", Chroot: "/"}))(t)
	require.Equal(t, zk.AuthACL(zk.PermAll), b.o.ACL)
	require.Empty(t, b.o.Chroot)
	require.True(t, b.plaintext)
	o := Options{Username: "u", Password: "p", Dial: new(net.Dialer).DialContext, ACL: zk.WorldACL(zk.PermRead), Log: &Log{To: zk.DefaultLogger}}
	b = peer.Must(ConnectBackend([]string{"a"}, o))(t)
	require.False(t, b.plaintext, "the caller's dialer may use TLS")
	require.Equal(t, []any{o.ACL, o.Log}, []any{b.o.ACL, b.o.Log})

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
	require.Equal(t, "us@er", b.o.Username)
	require.Equal(t, "p:w", b.o.Password)
	require.Equal(t, "/locks/x", b.o.Chroot)
	require.Equal(t, 4*time.Second, b.o.TTL)
	require.Equal(t, 500*time.Millisecond, b.tick)
	peer.BadURLs(t, map[string]string{
		"zookeeper:///x": "", "zookeeper://h?x=1": "", "zookeeper://h?tick_time=soon": "", "zookeeper://h?tick_time=1s&tick_time=2s": "",
		"zookeeper://u:secret@,h": "", "zookeeper:h": "", "zookeeper://h#x": "", "zookeeper://h?ttl=1us": "", "zookeeper://u%3Av:secret@h": "",
	})
}
