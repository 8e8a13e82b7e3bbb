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
	// TLS serves clients TLS and nothing else. The certificate, for 127.0.0.1 and localhost, lives as long as this process: see
	// Etcd.TLSConfig and Etcd.CAFile. Clients need no certificate.
	TLS bool
	// Cuttable has the nodes of a cluster speak to each other through this process, so that EtcdCluster.CutFromQuorum can cut them from
	// each other; what they do takes a little longer then.
	Cuttable bool
	// Flags are further flags, which win over ours: "--max-txn-ops=16". Relative paths begin at Etcd.Dir.
	Flags []string
}

// Etcd is an etcd server. Safe for concurrent use.
type Etcd struct {
	*server
	options EtcdOptions
}

// StartEtcd starts an etcd that stands alone.
func StartEtcd(ctx context.Context, o EtcdOptions) (*Etcd, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	e, err := startEtcd(ctx, o, etcdRole{name: "alone", token: "alone", port: port})
	if err != nil || o.RootPassword == "" {
		return e, err
	}
	if err := o.use(ctx, e.Addr(), func(c *clientv3.Client) error {
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

// etcdRole is what an etcd is in a cluster. Without members it stands alone.
type etcdRole struct {
	name, token string
	port        int
	members     []string // of the cluster: "name=http://127.0.0.1:port"
	proxy       string   // through which it speaks to the others; empty: directly
}

func startEtcd(ctx context.Context, o EtcdOptions, role etcdRole) (*Etcd, error) {
	e := &Etcd{options: o}
	k := kind{
		name: "etcd", port: role.port, tls: o.TLS, env: []string{"ETCD_UNSUPPORTED_ARCH=" + runtime.GOARCH}, // one before 3.5 starts on amd64 alone
		configure: func(context.Context, string, int) ([]string, error) { return role.flags(o), nil },
		ready: func(ctx context.Context, addr string) error {
			status, err := o.status(ctx, addr)
			if err == nil && status.Leader == 0 {
				err = fmt.Errorf("etcd %s knows of no leader", addr)
			}
			return err
		},
	}
	if role.proxy != "" {
		k.env = append(k.env, "HTTP_PROXY=socks5://"+role.proxy)
	}
	var err error
	if o.Current {
		if k.path, err = buildEtcd(); err != nil {
			return nil, err
		}
	}
	e.server, err = start(ctx, k)
	return e, err
}

// advertised is the URL by which the other nodes know this one. Go never uses a proxy for an address of the machine itself; it does
// for the one that stands for all of them.
func (r etcdRole) advertised() string {
	if r.proxy == "" {
		return "http://" + hostPort(r.port+peerOffset)
	}
	return fmt.Sprint("http://0.0.0.0:", r.port+peerOffset)
}

func (r etcdRole) flags(o EtcdOptions) []string {
	tick := cmp.Or(o.Tick, etcdTick).Milliseconds()
	client := overTLS("http", o.TLS) + "://" + hostPort(r.port)
	flags := []string{
		"--name=" + r.name,
		"--data-dir=data",
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=http://" + hostPort(r.port+peerOffset),
		"--initial-advertise-peer-urls=" + r.advertised(),
		"--initial-cluster=" + cmp.Or(strings.Join(r.members, ","), r.name+"="+r.advertised()),
		"--initial-cluster-token=" + r.token,
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
func (e *Etcd) leads(ctx context.Context) (bool, error) {
	status, err := e.options.status(ctx, e.Addr())
	return err == nil && status.Leader == status.Header.MemberId, err
}

// status asks one node alone.
func (o EtcdOptions) status(ctx context.Context, addr string) (status *clientv3.StatusResponse, err error) {
	err = o.use(ctx, addr, func(c *clientv3.Client) error {
		status, err = c.Status(ctx, addr)
		return err
	})
	return status, err
}

// use calls f with a client of one node, who is root there if there are users.
func (o EtcdOptions) use(ctx context.Context, addr string, f func(c *clientv3.Client) error) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr) // clientv3 would wait a second before it tried again
	if err != nil {
		return err
	}
	config := clientv3.Config{Endpoints: []string{addr}, Context: ctx, Logger: zap.NewNop(), MaxUnaryRetries: 1}
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
