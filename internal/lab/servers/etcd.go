package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
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
	// Cuttable routes the traffic between a cluster's nodes through this process, so that EtcdCluster.CutFromQuorum works. It makes the cluster
	// slightly slower.
	Cuttable bool
	// Flags are more flags, which override ours: "--max-txn-ops=16". Relative paths start at Etcd.Dir.
	Flags []string
}

// Etcd is an etcd server. Safe for concurrent use.
type Etcd struct {
	*Server
	options EtcdOptions
}

// StartEtcd starts a single etcd.
func StartEtcd(ctx context.Context, o EtcdOptions) (*Etcd, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	e, err := startEtcd(ctx, o, ports, 0, "")
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

// startEtcd starts node i of a cluster whose nodes have these ports. It reaches the others through the proxy, or directly if proxy is empty.
func startEtcd(ctx context.Context, o EtcdOptions, ports []int, i int, proxy string) (*Etcd, error) {
	e := &Etcd{options: o}
	k := kind{
		name: "etcd", port: ports[i], tls: o.TLS, env: []string{"ETCD_UNSUPPORTED_ARCH=" + runtime.GOARCH}, // etcd before 3.5 refuses to start except on amd64
		configure: func(context.Context, string, int) ([]string, error) { return o.flags(ports, i, proxy), nil },
		ready: func(ctx context.Context, addr string) error {
			return o.use(ctx, addr, func(c *clientv3.Client) error {
				status, err := c.Status(ctx, addr)
				if err == nil && status.Leader == 0 {
					err = errors.New("has no leader")
				}
				return err
			})
		},
	}
	if proxy != "" {
		k.env = append(k.env, "HTTP_PROXY=socks5://"+proxy)
	}
	var err error
	if o.Current {
		if k.path, err = buildEtcd(); err != nil {
			return nil, err
		}
	}
	e.Server, err = start(ctx, k)
	return e, err
}

func (o EtcdOptions) flags(ports []int, i int, proxy string) []string {
	host := "127.0.0.1"
	if proxy != "" { // Go uses no proxy for loopback addresses, but does for 0.0.0.0
		host = "0.0.0.0"
	}
	var urls, members []string
	for j, port := range ports {
		urls = append(urls, fmt.Sprintf("http://%s:%d", host, port+peerOffset))
		members = append(members, fmt.Sprintf("node%d=%s", j, urls[j]))
	}
	tick := cmp.Or(o.Tick, etcdTick).Milliseconds()
	client := overTLS("http", o.TLS) + "://" + hostPort(ports[i])
	flags := []string{
		fmt.Sprint("--name=node", i),
		"--data-dir=data",
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=http://" + hostPort(ports[i]+peerOffset),
		"--initial-advertise-peer-urls=" + urls[i],
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

// URL returns "etcd://127.0.0.1:port", with root's credentials if there is a password, and the scheme etcds with TLS.
func (e *Etcd) URL() string {
	user := ""
	if e.options.RootPassword != "" {
		user = "root"
	}
	return serverURL(overTLS("etcd", e.tls), user, e.options.RootPassword, e.Addr(), "")
}

// leads reports whether the node believes that it is the leader.
func (e *Etcd) leads(ctx context.Context) (leads bool, err error) {
	err = e.Use(ctx, func(c *clientv3.Client) error {
		status, err := c.Status(ctx, e.Addr())
		leads = err == nil && status.Leader == status.Header.MemberId
		return err
	})
	return leads, err
}

// Use calls f with a client of this server alone, logged in as root if the server has users. The client's requests end with ctx.
func (e *Etcd) Use(ctx context.Context, f func(c *clientv3.Client) error) error {
	return e.options.use(ctx, e.Addr(), f)
}

func (o EtcdOptions) use(ctx context.Context, addr string, f func(c *clientv3.Client) error) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr) // fail at once: clientv3 waits a second before it retries
	if err != nil {
		return err
	}
	config := clientv3.Config{Endpoints: []string{addr}, Context: ctx, Logger: zap.NewNop()}
	if o.RootPassword != "" {
		config.Username, config.Password = "root", o.RootPassword
	}
	if o.TLS {
		config.TLS = clientTLS()
	}
	c, err := clientv3.New(config)
	if err == nil {
		err = errors.Join(f(c), c.Close())
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("etcd %s: %w", addr, errors.Join(context.Cause(ctx), err))
	}
	return nil
}
