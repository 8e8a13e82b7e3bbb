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
	// etcdTick is the shortest that leaves the smallest lease at 1 s, with room for a busy machine.
	etcdTick = 20 * time.Millisecond
	// electionTicks is what etcd recommends.
	electionTicks = 10
)

// EtcdOptions are the options of an etcd. The zero value is a plain one. Its data outlive kill -9 and Restart.
type EtcdOptions struct {
	// Current starts the etcd that the module in etcdserver pins, built when it is first needed, instead of the one that is
	// installed (Debian's is older).
	Current bool
	// Tick is the interval of heartbeats, in whole milliseconds; an election begins after ten to twenty without one. The
	// smallest lease is 15 ticks, rounded up to seconds. Default: 20 ms, hence 1 s.
	Tick time.Duration
	// RootPassword is that of the user root; everybody else is refused. Empty: no authentication. It is not for clusters.
	RootPassword string
	// TLS serves clients TLS and nothing else: see Server.TLSConfig.
	TLS bool
	// Cuttable has the nodes of a cluster speak to each other through this process, so that EtcdCluster.CutFromQuorum can cut them from
	// each other; what they do takes a little longer then.
	Cuttable bool
	// Flags are further flags, which win over ours: "--max-txn-ops=16". Relative paths begin at Etcd.Dir.
	Flags []string
}

// Etcd is an etcd server. Safe for concurrent use.
type Etcd struct {
	*Server
	options EtcdOptions
}

// StartEtcd starts an etcd that stands alone.
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

// startEtcd starts node i of those that have these ports. It speaks to the others through the proxy, or directly if that is empty.
func startEtcd(ctx context.Context, o EtcdOptions, ports []int, i int, proxy string) (*Etcd, error) {
	e := &Etcd{options: o}
	k := kind{
		name: "etcd", port: ports[i], tls: o.TLS, env: []string{"ETCD_UNSUPPORTED_ARCH=" + runtime.GOARCH}, // one before 3.5 starts on amd64 alone
		configure: func(context.Context, string, int) ([]string, error) { return o.flags(ports, i, proxy), nil },
		ready: func(ctx context.Context, addr string) error {
			return o.use(ctx, addr, func(c *clientv3.Client) error {
				status, err := c.Status(ctx, addr)
				if err == nil && status.Leader == 0 {
					err = errors.New("knows of no leader")
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
	if proxy != "" { // Go never uses one for an address of the machine itself; it does for the one that stands for all of them
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
		"--bcrypt-cost=4", // passwords are checked at once
		"--logger=zap",
		"--log-outputs=stderr",
	}
	if o.TLS {
		flags = append(flags, "--cert-file="+certFile, "--key-file="+keyFile)
	}
	return append(flags, o.Flags...)
}

// URL is the server's, with root's password if it has one: "etcd://root:password@127.0.0.1:port", or "etcds://…" with TLS.
func (e *Etcd) URL() string {
	user := ""
	if e.options.RootPassword != "" {
		user = "root"
	}
	return serverURL(overTLS("etcd", e.tls), user, e.options.RootPassword, e.Addr(), "")
}

// leads is whether the node believes that it leads.
func (e *Etcd) leads(ctx context.Context) (leads bool, err error) {
	err = e.Use(ctx, func(c *clientv3.Client) error {
		status, err := c.Status(ctx, e.Addr())
		leads = err == nil && status.Leader == status.Header.MemberId
		return err
	})
	return leads, err
}

// Use calls f with a client of this server and no other, who is root if there are users. The client's requests end with ctx.
func (e *Etcd) Use(ctx context.Context, f func(c *clientv3.Client) error) error {
	return e.options.use(ctx, e.Addr(), f)
}

func (o EtcdOptions) use(ctx context.Context, addr string, f func(c *clientv3.Client) error) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr) // clientv3 would wait a second before it tried again
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
