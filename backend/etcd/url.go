package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	for _, s := range []lockport.Scheme{
		{Name: "etcd", Example: "etcd://user:password@localhost:2379,other:2379", Params: params},
		{Name: "etcds", Example: "etcds://localhost:2379,other:2379?servername=etcd.example.com", Params: append(params, lockurl.TLSParams...)},
	} {
		s.Open, s.Capabilities = openURL, capabilities
		lockport.Register(s)
	}
}

var params = []lockport.Param{
	{Name: "prefix", Text: `prefix of all keys; default "lockport/"; may be empty`},
	{Name: "addr", Text: "another endpoint, host:port; repeatable; needed for more than one IPv6 address"},
}

// openURL makes a backend from a URL, with a client of its own.
func openURL(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	p := lockurl.Of(u)
	if u.Path != "" && u.Path != "/" {
		return nil, fmt.Errorf("the etcd URL has the path %q: set the prefix of the keys by the parameter prefix", u.Path)
	}
	var o Options
	o.Prefix, o.NoPrefix = p.Prefix()
	config := newConfig(p.Hosts("2379"))
	config.Username = u.User.Username()
	config.Password, _ = u.User.Password()
	if u.User != nil && (config.Username == "" || config.Password == "") {
		return nil, errors.New("the etcd URL has a user without a password, or a password without a user: give it both or none")
	}
	if u.Scheme == "etcds" {
		if config.TLS = p.TLS(""); config.TLS.ServerName != "" { // else the endpoint's name takes precedence
			config.DialOptions = append(config.DialOptions, grpc.WithAuthority(config.TLS.ServerName))
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return newBackend(nil, config, o)
}

const (
	// Bounds on our own client's connection attempts and on its request for a token.
	connectTimeout = 3 * time.Second
	maxReconnect   = time.Second
	// pingAfter is the silence after which gRPC pings the server; etcd rejects more frequent pings.
	pingAfter   = 10 * time.Second
	pingTimeout = 3 * time.Second
)

// newConfig returns the configuration of a client that does not log.
func newConfig(endpoints []string) *clientv3.Config {
	wait := backoff.DefaultConfig
	wait.BaseDelay, wait.MaxDelay = 50*time.Millisecond, maxReconnect
	return &clientv3.Config{
		Endpoints:            endpoints,
		Logger:               zap.NewNop(),
		DialTimeout:          connectTimeout,
		MaxUnaryRetries:      2, // one retry, for an expired token
		DialKeepAliveTime:    pingAfter,
		DialKeepAliveTimeout: pingTimeout,
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: connectTimeout}),
			grpc.WithChainUnaryInterceptor(sendOnce), // within clientv3's own interceptor, which repeats requests
		},
	}
}

// sendOnce keeps clientv3 from repeating a transaction that a server or proxy, not its caller, ended. If etcd has executed it, a second release would
// find nothing, and look like a loss.
func sendOnce(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, send grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := send(ctx, method, req, reply, conn, opts...)
	if code := status.Code(err); method == "/etcdserverpb.KV/Txn" && ctx.Err() == nil && (code == codes.Canceled || code == codes.DeadlineExceeded) {
		return status.Error(codes.Unknown, text(err))
	}
	return err
}
