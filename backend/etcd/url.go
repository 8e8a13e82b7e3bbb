package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
		config.TLS = p.TLS("")
		config.DialOptions = append(config.DialOptions, grpc.WithAuthority(config.TLS.ServerName)) // takes precedence over the endpoint
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(afresh(*config)))
	return newBackend(nil, config, o)
}

// afresh logs in without the former token if that has ended. etcd 3.4 refuses a login that carries it, and clientv3 would repeat such a login for ever.
func afresh(config clientv3.Config) grpc.UnaryClientInterceptor {
	config.Username, config.Password = "", ""
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, send grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := send(ctx, method, req, reply, conn, opts...)
		if method != "/etcdserverpb.Auth/Authenticate" || !errors.Is(rpctypes.Error(err), rpctypes.ErrInvalidAuthToken) {
			return err
		}
		client, err := clientv3.New(config)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		return client.ActiveConnection().Invoke(ctx, method, req, reply)
	}
}

// connectTimeout bounds our own client's connection attempts and its request for a token.
const connectTimeout = 3 * time.Second

// newConfig returns the configuration of a client that does not log.
func newConfig(endpoints []string) *clientv3.Config {
	wait := backoff.DefaultConfig
	wait.BaseDelay, wait.MaxDelay = 50*time.Millisecond, time.Second
	return &clientv3.Config{
		Endpoints:            endpoints,
		Logger:               zap.NewNop(),
		DialTimeout:          connectTimeout,
		MaxUnaryRetries:      2,                // one retry, for an expired token
		DialKeepAliveTime:    10 * time.Second, // etcd rejects more frequent pings
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: connectTimeout}),
			grpc.WithChainUnaryInterceptor(sendOnce), // within clientv3's own interceptor, which repeats requests
			grpc.WithChainStreamInterceptor(openOnce),
		},
	}
}

// sendOnce and openOnce keep clientv3 from repeating requests, see final.
func sendOnce(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, send grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return final(ctx, method, send(ctx, method, req, reply, conn, opts...))
}

func openOnce(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, d, conn, method, opts...)
	if err != nil {
		return nil, final(ctx, method, err)
	}
	return stream{s, method}, nil
}

type stream struct {
	grpc.ClientStream
	method string
}

func (s stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	return final(s.Context(), s.method, err) // an earlier call of Context would end gRPC's own retries
}

// final gives err a code that clientv3 does not repeat, in two cases. If a server or proxy, not the caller, ended a transaction, etcd may have executed
// it: a second release would find nothing, and look like a loss. A keep-alive would be repeated without a pause, if a proxy answers UNAVAILABLE.
func final(ctx context.Context, method string, err error) error {
	code, repeated := status.Code(err), false
	switch method {
	case "/etcdserverpb.KV/Txn":
		repeated = ctx.Err() == nil && (code == codes.Canceled || code == codes.DeadlineExceeded)
	case "/etcdserverpb.Lease/LeaseKeepAlive":
		repeated = code == codes.Unavailable || code == codes.Internal
	}
	if repeated {
		return status.Error(codes.Unknown, status.Convert(err).Message())
	}
	return err
}
