package etcd

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/tlsfiles"
)

func init() {
	for _, s := range []lockport.Scheme{
		{Name: "etcd", Example: "etcd://user:password@localhost:2379,other:2379", Params: params},
		{Name: "etcds", Example: "etcds://localhost:2379,other:2379?servername=etcd.example.com", Params: append(params, tlsParams...)},
	} {
		s.Open, s.Capabilities = openURL, capabilities
		lockport.Register(s)
	}
}

var params = []lockport.Param{
	{Name: "prefix", Text: `what the keys begin with; default "lockport/"; may be empty`},
	{Name: "addr", Text: "a further endpoint, host:port; may be repeated, and is needed for more than one IPv6 address"},
}

var tlsParams = []lockport.Param{
	{Name: "ca", Text: "file with the certificates (PEM) that the servers' are checked against; default: the system's"},
	{Name: "cert", Text: "file with the client's certificate (PEM)"},
	{Name: "key", Text: "file with its key"},
	{Name: "servername", Text: "what the servers' certificates must be for; default: the host"},
}

// openURL makes a backend of a URL, with a client of its own.
func openURL(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	q := u.Query()
	take := func(name string) string {
		value := q.Get(name)
		q.Del(name)
		return value
	}
	for name, values := range q {
		if len(values) > 1 && name != "addr" {
			return nil, fmt.Errorf("the URL parameter %s is given twice", name)
		}
	}
	var o Options
	if q.Has("prefix") {
		o.Prefix = take("prefix")
		o.NoPrefix = o.Prefix == ""
	}
	if u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("the etcd URL has the path %q: what the keys begin with is the parameter prefix", u.Path)
	}
	endpoints, err := endpointsOf(u, q["addr"])
	if err != nil {
		return nil, err
	}
	q.Del("addr")
	config := newConfig(endpoints)
	if u.User != nil {
		config.Username = u.User.Username()
		config.Password, _ = u.User.Password()
		if config.Username == "" || config.Password == "" {
			return nil, errors.New("the etcd URL has a user without a password, or a password without a user: give it both or none")
		}
	}
	why := new(reasons)
	config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(why.connect))
	if u.Scheme == "etcds" {
		t, err := tlsfiles.Config(take("ca"), take("cert"), take("key"), take("servername"))
		if err != nil {
			return nil, err
		}
		config.DialOptions = append(config.DialOptions, grpc.WithTransportCredentials(&handshakes{credentials.NewTLS(t), t.ServerName, why}))
	}
	for name := range q {
		return nil, fmt.Errorf("unknown URL parameter %q of an %s URL", name, u.Scheme)
	}
	l := newLink(nil, config)
	l.why, l.clear = why, config.Username != "" && u.Scheme == "etcd"
	return newBackend(l, o)
}

// endpointsOf are the addresses in a URL.
func endpointsOf(u *url.URL, more []string) ([]string, error) {
	var all []string
	for _, host := range append(strings.Split(u.Host, ","), more...) {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // no port
			name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "2379"
		}
		if name == "" || port == "" || strings.ContainsAny(name, "/@[]") {
			return nil, fmt.Errorf("bad address %q in the etcd URL: want host:port, several with commas between them", host)
		}
		all = append(all, net.JoinHostPort(name, port))
	}
	return all, nil
}

const (
	// Bounds of the own client's attempts to connect, and of its request for a token.
	connectTimeout = 3 * time.Second
	maxReconnect   = time.Second
	// pingAfter is after how long a silence gRPC asks whether the server is there; etcd refuses more.
	pingAfter   = 10 * time.Second
	pingTimeout = 3 * time.Second
)

// newConfig configures a client that logs nothing.
func newConfig(endpoints []string) *clientv3.Config {
	wait := backoff.DefaultConfig
	wait.BaseDelay, wait.MaxDelay = 50*time.Millisecond, maxReconnect
	return &clientv3.Config{
		Endpoints:            endpoints,
		Logger:               zap.NewNop(),
		DialTimeout:          connectTimeout,
		MaxUnaryRetries:      2, // one more than none, for when a token has expired
		DialKeepAliveTime:    pingAfter,
		DialKeepAliveTimeout: pingTimeout,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: connectTimeout})},
	}
}
