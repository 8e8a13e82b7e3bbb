package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// etcdTick is the shortest tick that allows leases of 1 s and still tolerates a busy machine.
	etcdTick = 20 * time.Millisecond
	// electionTicks is etcd's recommendation.
	electionTicks = 10
)

// EtcdOptions are the options of an etcd. The zero value is a plain server. Its data survive SIGKILL and Restart.
type EtcdOptions struct {
	// Current starts the etcd that the module in etcdserver pins, built on first use, instead of the installed one (Debian's is older).
	Current bool
	// Tick is the heartbeat interval, in whole milliseconds. An election begins after 10 to 20 ticks without a heartbeat. The smallest lease is 15
	// ticks, rounded up to seconds. Default: 20 ms, hence 1 s.
	Tick time.Duration
	// RootPassword is the password of the user root; all other users are refused. Empty: no authentication. Not for clusters.
	RootPassword string
	// TLS makes the server accept clients over TLS only: see Server.TLSConfig.
	TLS bool
	// Cuttable routes a cluster's traffic through this process, so that Set.CutFromQuorum works. It makes the cluster slightly slower.
	Cuttable bool
	// Flags are more flags, which override ours: "--max-txn-ops=16". Relative paths start at Etcd.Dir.
	Flags []string
}

// Etcd is an etcd server. Safe for concurrent use.
type Etcd struct{ *Server }

// StartEtcd starts a single etcd.
func StartEtcd(ctx context.Context, o EtcdOptions) (*Etcd, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	e, err := startEtcd(ctx, o, starting{ports: []int{port}})
	if err != nil || o.RootPassword == "" {
		return e, err
	}
	if err := e.Use(ctx, func(c *clientv3.Client) error {
		_, err1 := c.UserAdd(ctx, "root", o.RootPassword)
		_, err2 := c.RoleAdd(ctx, "root")
		_, err3 := c.UserGrantRole(ctx, "root", "root")
		_, err4 := c.AuthEnable(ctx)
		return errors.Join(err1, err2, err3, err4)
	}); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// StartEtcdCluster starts an etcd cluster whose nodes have the options o, ready when all serve. That takes 2 s: new nodes first look for peers.
func StartEtcdCluster(ctx context.Context, o EtcdOptions) (*Group[*Etcd], error) {
	return startGroup(ctx, "etcd", quorumNodes, o.Cuttable, func(ctx context.Context, s starting) (*Etcd, error) { return startEtcd(ctx, o, s) })
}

func startEtcd(ctx context.Context, o EtcdOptions, g starting) (*Etcd, error) {
	k := kind{
		name: "etcd", port: g.ports[g.i], url: url.URL{Scheme: overTLS("etcd", o.TLS)}, tls: o.TLS,
		// etcd before 3.5 refuses to start except on amd64.
		env: []string{"ETCD_UNSUPPORTED_ARCH=" + runtime.GOARCH},
		// A member that stops gracefully tries to transfer leadership, which is futile when all members stop.
		end:       syscall.SIGKILL,
		configure: func(context.Context, string, int) ([]string, error) { return o.flags(g), nil },
		ready: func(ctx context.Context, s *Server) error { // a linearizable read involves the leader
			return (&Etcd{s}).Use(ctx, func(c *clientv3.Client) error { _, err := c.Get(ctx, "serves"); return err })
		},
		leads: func(ctx context.Context, s *Server) (leads bool, err error) {
			err = (&Etcd{s}).Use(ctx, func(c *clientv3.Client) error {
				status, err := c.Status(ctx, s.Addr())
				leads = err == nil && status.Leader == status.Header.MemberId
				return err
			})
			return leads, err
		},
	}
	if o.RootPassword != "" {
		k.url.User = url.UserPassword("root", o.RootPassword)
	}
	if g.proxy != "" {
		k.env = append(k.env, "HTTP_PROXY=socks5://"+g.proxy)
	}
	var err error
	if o.Current {
		if k.path, err = buildEtcd(); err != nil {
			return nil, err
		}
	}
	s, err := start(ctx, k)
	return &Etcd{s}, err
}

func (o EtcdOptions) flags(g starting) []string {
	host := "127.0.0.1"
	if g.proxy != "" { // Go uses no proxy for loopback addresses, but does for 0.0.0.0
		host = "0.0.0.0"
	}
	var urls, members []string
	for j, port := range g.ports {
		urls = append(urls, fmt.Sprintf("http://%s:%d", host, port+peerOffset))
		members = append(members, fmt.Sprintf("node%d=%s", j, urls[j]))
	}
	tick := cmp.Or(o.Tick, etcdTick).Milliseconds()
	client := overTLS("http", o.TLS) + "://" + hostPort(g.ports[g.i])
	flags := []string{
		fmt.Sprint("--name=node", g.i),
		"--data-dir=data",
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=http://" + hostPort(g.ports[g.i]+peerOffset),
		"--initial-advertise-peer-urls=" + urls[g.i],
		"--initial-cluster=" + strings.Join(members, ","),
		fmt.Sprint("--heartbeat-interval=", tick),
		fmt.Sprint("--election-timeout=", electionTicks*tick),
		"--bcrypt-cost=4", // fast password checks
		"--logger=zap",
		"--log-outputs=stderr",
	}
	if o.TLS {
		flags = append(flags, "--cert-file="+certFile, "--key-file="+keyFile)
	}
	return append(flags, o.Flags...)
}

// Use calls f with a client of this server alone, logged in as root if the server has users. The client's requests end with ctx.
func (e *Etcd) Use(ctx context.Context, f func(c *clientv3.Client) error) error {
	if err := accepts(ctx, e.Server); err != nil { // fail at once: clientv3 waits a second before it retries
		return err
	}
	config := clientv3.Config{Endpoints: []string{e.Addr()}, Context: ctx, Logger: zap.NewNop(), TLS: e.TLSConfig(), Username: e.url.User.Username()}
	config.Password, _ = e.url.User.Password()
	c, err := clientv3.New(config)
	if err == nil {
		err = errors.Join(f(c), c.Close())
	}
	if err != nil {
		return fmt.Errorf("etcd %s: %w", e.Addr(), errors.Join(context.Cause(ctx), err))
	}
	return nil
}
