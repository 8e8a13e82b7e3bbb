package etcd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/internal/lab/peer"
)

func TestURLs(t *testing.T) {
	for rawURL, want := range map[string]struct {
		endpoints      []string
		user, password string
		prefix         string
	}{
		"etcd://host":                                 {endpoints: []string{"host:2379"}, prefix: "lockport/"},
		"etcd://a:1,b,c:2/?prefix=app/":               {endpoints: []string{"a:1", "b:2379", "c:2"}, prefix: "app/"},
		"etcd://user:p%40ss@a:1?prefix=":              {endpoints: []string{"a:1"}, user: "user", password: "p@ss"},
		"etcd://[::1]:7?addr=[::2]:8&addr=h":          {endpoints: []string{"[::1]:7", "[::2]:8", "h:2379"}, prefix: "lockport/"},
		"etcds://a:1,b:2?servername=etcd.example.com": {endpoints: []string{"a:1", "b:2"}, prefix: "lockport/"},
		"etcd://[::1]?prefix=%D0%B7%D0%B0%D0%BC/x":    {endpoints: []string{"[::1]:2379"}, prefix: "зам/x"},
	} {
		e := peer.Opened(t, rawURL).(*Backend)
		c := e.config
		require.Equal(t, want.endpoints, c.Endpoints, rawURL)
		require.Equal(t, []string{want.user, want.password, want.prefix}, []string{c.Username, c.Password, e.layout.prefix}, rawURL)
		require.NoError(t, e.Close())
	}
}

func TestBadURLs(t *testing.T) {
	noCertificate := filepath.Join(t.TempDir(), "none.pem")
	require.NoError(t, os.WriteFile(noCertificate, []byte("x"), 0o600))
	peer.BadURLs(t, map[string]string{
		"etcd://u:secret@host?pool=1":               `unknown URL parameter "pool"`,
		"etcd://u:secret@host?ca=x":                 `unknown URL parameter "ca"`,
		"etcd://u:secret@host/app":                  "parameter prefix",
		"etcd://:secret@host":                       "both or none",
		"etcd://user@host":                          "both or none",
		"etcd://u:secret@a?addr=b/c":                "bad address",
		"etcds://u:secret@host?ca=" + noCertificate: "no certificate",
	})
}

func TestNewRefuses(t *testing.T) {
	require.ErrorContains(t, peer.ErrOf(New(nil, Options{})), "nil")
	require.ErrorContains(t, peer.ErrOf(New(clientv3.NewCtxClient(t.Context()), Options{})), "Watcher")
	client := peer.Must(clientv3.New(*newConfig([]string{"127.0.0.1:1"})))(t)
	defer func() { _ = client.Close() }()
	for _, o := range []Options{{Prefix: "x", NoPrefix: true}, {Prefix: "\xff"}} {
		require.Error(t, peer.ErrOf(New(client, o)), "%+v", o)
	}
}
