package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	etcdInstall    = "apt-get install etcd-server (Debian), brew install etcd (macOS)"
	etcdctlInstall = "apt-get install etcd-client (Debian), brew install etcd (macOS)"
	// etcdPeer is how far above its port a node listens for the others.
	etcdPeer = 10000
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
	// RootPassword is that of the user root; everybody else is refused. Empty: no authentication.
	RootPassword string
	// TLS serves clients TLS and nothing else. The certificate, for 127.0.0.1 and localhost, is signed by an authority that
	// lives as long as this process: see Etcd.TLSConfig and Etcd.CAFile. Clients need no certificate.
	TLS bool
	// Cuttable has the nodes of a cluster speak to each other through this process, so that EtcdCluster.CutFromQuorum can cut them from each other;
	// what they do takes a little longer then.
	Cuttable bool
	// Flags are further flags, which win over ours: "--max-txn-ops=16". Relative paths begin at Etcd.Dir.
	Flags []string
}

// Etcd is an etcd server. Safe for concurrent use.
type Etcd struct {
	*server
	options EtcdOptions
	name    string // of the member, like no other
	client  etcdClient
	member  atomic.Uint64 // its number, known when it was ready first
}

// StartEtcd starts an etcd that stands alone, ready when it serves. ctx bounds the start alone. The caller must Close
// the server.
func StartEtcd(ctx context.Context, o EtcdOptions) (*Etcd, error) {
	e, err := startEtcd(ctx, o, etcdRole{name: etcdName()}, freePort)
	if err != nil {
		return nil, err
	}
	if err := enableAuth(ctx, e); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// etcdRole is what an etcd is in a cluster. Without members it stands alone.
type etcdRole struct {
	name    string
	token   string
	members []string     // of the cluster: "name=http://127.0.0.1:port"
	proxy   *net.TCPAddr // through which it speaks to the others; nil: directly
}

func etcdName() string { return "lockport-" + strings.ToLower(rand.Text()) }

func startEtcd(ctx context.Context, o EtcdOptions, role etcdRole, pick func(int) (int, error)) (*Etcd, error) {
	path, err := findEtcd(ctx, o)
	if err != nil {
		return nil, err
	}
	e := &Etcd{options: o, name: role.name}
	if o.TLS {
		e.client.tls = clientTLS()
	}
	e.server, err = startServer(ctx, program{
		name:       "etcd",
		path:       path,
		private:    o.Current,
		tls:        o.TLS,
		data:       []string{"data"},
		env:        etcdEnvironment(role),
		portOffset: etcdPeer,
		configure:  func(dir string, port int) ([]string, error) { return e.configure(dir, port, role), nil },
		ready:      e.ready,
	}, pick)
	if err != nil {
		return nil, err
	}
	e.client.addr = e.Addr()
	return e, nil
}

func findEtcd(ctx context.Context, o EtcdOptions) (string, error) {
	if o.Current {
		return buildEtcd(ctx)
	}
	return find("etcd", etcdInstall)
}

// FindEtcdctl returns the path of etcd's command, or a [*NotInstalled].
func FindEtcdctl() (string, error) { return find("etcdctl", etcdctlInstall) }

// etcdEnvironment is ours without what etcd would read: where a flag says otherwise, it refuses to start.
func etcdEnvironment(role etcdRole) []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "ETCD_") })
	if runtime.GOARCH != "amd64" {
		env = append(env, "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH) // or a server before 3.5 does not start
	}
	if role.proxy != nil {
		env = append(env, "HTTP_PROXY=socks5://"+role.proxy.String(), "NO_PROXY=", "no_proxy=")
	}
	return env
}

// advertised is the URL by which the other nodes know the one on that port. Go goes to no address of the machine itself through a proxy; it does to
// the one that stands for all of them.
func (r etcdRole) advertised(port int) string {
	if r.proxy == nil {
		return peerURL(port)
	}
	return fmt.Sprint("http://0.0.0.0:", port+etcdPeer)
}

func peerURL(port int) string { return "http://" + hostPort(port+etcdPeer) }

// configure returns the flags of e in that folder and on that port.
func (e *Etcd) configure(dir string, port int, role etcdRole) []string {
	tick := cmp.Or(e.options.Tick, etcdTick).Milliseconds()
	members := role.members
	if members == nil {
		members = []string{e.name + "=" + role.advertised(port)}
	}
	client := e.clientURL(hostPort(port))
	args := []string{
		"--name=" + e.name,
		"--data-dir=" + dataDir(dir),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peerURL(port),
		"--initial-advertise-peer-urls=" + role.advertised(port),
		"--initial-cluster=" + strings.Join(members, ","),
		"--initial-cluster-token=" + cmp.Or(role.token, e.name),
		fmt.Sprint("--heartbeat-interval=", tick),
		fmt.Sprint("--election-timeout=", electionTicks*tick),
		"--bcrypt-cost=4", // passwords are checked at once
		"--logger=zap",
		"--log-outputs=stderr",
	}
	if e.options.TLS {
		args = append(args, "--cert-file="+certFile, "--key-file="+keyFile)
	}
	return append(args, e.options.Flags...)
}

// ready asks for the member too: the port may be another's.
func (e *Etcd) ready(ctx context.Context, addr string, _ int) error {
	client := e.client
	client.addr = addr
	status, err := client.status(ctx)
	if err != nil {
		return err
	}
	ours := e.member.Load()
	if ours == 0 {
		if ours, err = client.memberNamed(ctx, e.name); err != nil {
			return err
		}
	}
	switch {
	case status.Header.MemberId != ours:
		return fmt.Errorf("the etcd on %s is member %x, not ours", addr, status.Header.MemberId)
	case status.Leader == 0:
		return fmt.Errorf("etcd %s knows of no leader", addr)
	}
	e.member.Store(ours)
	return nil
}

// enableAuth has the nodes of one cluster serve root alone, if they were given a password.
func enableAuth(ctx context.Context, nodes ...*Etcd) error {
	password := nodes[0].options.RootPassword
	if password == "" {
		return nil
	}
	if err := nodes[0].client.enableAuth(ctx, password); err != nil {
		return err
	}
	for _, node := range nodes {
		node.client.password = password
	}
	return nil
}

func (e *Etcd) clientURL(addr string) string {
	if e.options.TLS {
		return "https://" + addr
	}
	return "http://" + addr
}

// URL is the server's, with root's password if it has one: "etcd://root:password@127.0.0.1:port", or "etcds://…" with TLS.
func (e *Etcd) URL() string { return e.options.url(e.Addr()) }

func (o EtcdOptions) url(host string) string {
	u := url.URL{Scheme: "etcd", Host: host}
	if o.TLS {
		u.Scheme = "etcds"
	}
	if o.RootPassword != "" {
		u.User = url.UserPassword("root", o.RootPassword)
	}
	return u.String()
}

// Version is the server's, as it says itself: "3.4.23". ctx, and 5 s, bound the question.
func (e *Etcd) Version(ctx context.Context) (string, error) {
	status, err := e.client.status(ctx)
	if err != nil {
		return "", err
	}
	return status.Version, nil
}
