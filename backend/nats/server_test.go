package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

// serverVariable makes this program a NATS server that runs as its configuration file says.
const serverVariable = "LOCKPORT_TEST_NATS_SERVER"

func TestMain(m *testing.M) {
	if file := os.Getenv(serverVariable); file != "" {
		serve(file)
	}
	play.WorkerMain()
	conformance.WorkerMain(openLink)
	os.Exit(m.Run())
}

func serve(file string) {
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		panic(err)
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
	os.Exit(0)
}

// openLink opens a backend as Open does, without looking at the server.
func openLink(_ context.Context, rawURL string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	return b, err
}

// The environments. An election takes 4 to 9 s.
var (
	one   = on("nats", "one NATS server", 1)
	three = on("nats-cluster", "three NATS servers", 3)
)

func on(name, title string, nodes int) environment.Environment {
	const ttl = 2 * time.Second
	return environment.Environment{
		Name: name, Title: title, Backend: "nats", TTL: ttl, Margin: ttl/20 + 10*time.Millisecond, Tokens: true,
		RemovalNotice: capabilities.RemovalNotice(ttl),
		Start:         func(ctx context.Context) (environment.Servers, error) { return startCluster(ctx, nodes) },
	}
}

func need(t testing.TB, e environment.Environment) *environment.Running {
	t.Helper()
	if servers.WithoutServers() {
		t.Skip("not run: needs " + e.Title + ", which -short does without")
	}
	r, err := e.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.Log())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// node is a server in a process of its own: this program.
type node struct {
	dir, addr string
	proc      *worker.Process
}

func (n *node) Addr() string  { return n.addr }
func (n *node) Kill() error   { n.proc.Kill(); return nil }
func (n *node) Stop() error   { _ = n.proc.Signal(syscall.SIGTERM); <-n.proc.Over(); return nil }
func (n *node) Freeze() error { return n.proc.Freeze() }

func (n *node) Thaw() error {
	if n.proc == nil {
		return os.ErrProcessDone
	}
	return n.proc.Thaw()
}

func (n *node) Restart(context.Context) error {
	if n.proc != nil {
		n.proc.Kill()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serverVariable+"="+filepath.Join(n.dir, "server.conf"))
	if n.proc, err = worker.Run(cmd); err != nil {
		return err
	}
	return nil
}

// cluster implements environment.Servers.
type cluster struct {
	dir string
	all []*node
}

var config = `server_name: n%d
listen: "%s"
log_file: "%s/server.log"
jetstream { store_dir: "%s/data" }
`

func startCluster(ctx context.Context, n int) (_ *cluster, err error) {
	c := &cluster{}
	if c.dir, err = os.MkdirTemp("", "lockport-nats-"); err != nil {
		return nil, err
	}
	var addrs, routes []string
	var listeners []net.Listener
	for range 2 * n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		addrs = append(addrs, l.Addr().String())
	}
	for _, route := range addrs[n:] {
		routes = append(routes, `"nats://`+route+`"`)
	}
	for i := range n {
		node := &node{dir: filepath.Join(c.dir, fmt.Sprint(i)), addr: addrs[i]}
		text := fmt.Sprintf(config, i, node.addr, node.dir, node.dir)
		if n > 1 { // clients are to know only the servers that they are given
			text += fmt.Sprintf("cluster { name: locks, listen: %q, no_advertise: true, routes: [%s] }\n", addrs[n+i], strings.Join(routes, ", "))
		}
		if err := errors.Join(os.Mkdir(node.dir, 0o700), os.WriteFile(filepath.Join(node.dir, "server.conf"), []byte(text), 0o600)); err != nil {
			return nil, err
		}
		c.all = append(c.all, node)
	}
	for _, l := range listeners {
		_ = l.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Heal(ctx); err != nil {
		return nil, errors.Join(err, fmt.Errorf("%s", c.Log()), c.Close())
	}
	return c, nil
}

func (c *cluster) Nodes() (all []environment.Node) {
	for _, n := range c.all {
		all = append(all, n)
	}
	return all
}

func (c *cluster) Addrs() (all []string) {
	for _, n := range c.all {
		all = append(all, n.addr)
	}
	return all
}

func (c *cluster) URL(addrs []string) string { return "nats://" + strings.Join(addrs, ",") }

func (c *cluster) Close() error {
	for _, n := range c.all {
		if n.proc != nil {
			n.proc.Kill()
		}
	}
	return os.RemoveAll(c.dir)
}

func (c *cluster) Log() (all string) {
	for _, n := range c.all {
		text, _ := os.ReadFile(filepath.Join(n.dir, "server.log"))
		all += n.addr + "\n" + string(text[max(0, len(text)-1500):])
	}
	return all
}

// at lends a connection.
func (c *cluster) at(use func(js jetstream.JetStream) error) error {
	nc, err := natsgo.Connect(strings.Join(c.Addrs(), ","), natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return use(js)
}

// Heal returns when every server has the whole bucket, which it makes if there is none.
func (c *cluster) Heal(ctx context.Context) error {
	if err := environment.Revive(ctx, c.all...); err != nil {
		return err
	}
	return environment.Eventually(ctx, func(ctx context.Context) error {
		return c.at(func(js jetstream.JetStream) error {
			if err := CreateBucket(ctx, js, Options{}, len(c.all)); err != nil {
				return err
			}
			s, err := js.Stream(ctx, "KV_lockport")
			if err != nil {
				return err
			}
			if cl := s.CachedInfo().Cluster; len(c.all) > 1 && (cl == nil || cl.Leader == "" || len(cl.Replicas) != len(c.all)-1 ||
				slices.ContainsFunc(cl.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })) {
				return fmt.Errorf("the bucket's replicas are not current: %+v", cl)
			}
			return nil
		})
	})
}

func (c *cluster) withKey(ctx context.Context, use func(kv jetstream.KeyValue) error) error {
	return c.at(func(js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, "lockport")
		if err != nil {
			return err
		}
		return use(kv)
	})
}

func (c *cluster) Remove(ctx context.Context, name string) error {
	return c.withKey(ctx, func(kv jetstream.KeyValue) error {
		if _, err := kv.Get(ctx, keyOf(name)); errors.Is(err, jetstream.ErrKeyNotFound) {
			return environment.ErrNotHeld
		}
		return kv.Purge(ctx, keyOf(name))
	})
}

func (c *cluster) Overwrite(ctx context.Context, name string) error {
	return c.withKey(ctx, func(kv jetstream.KeyValue) error {
		_, err := kv.Put(ctx, keyOf(name), []byte("somebody else"))
		return err
	})
}

// Leftovers leaves out the markers, which stay for their time.
func (c *cluster) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	err = c.withKey(ctx, func(kv jetstream.KeyValue) error {
		keys, err := kv.Keys(ctx)
		if errors.Is(err, jetstream.ErrNoKeysFound) {
			return nil
		}
		left = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, keyOf(prefix)) })
		return err
	})
	return left, err
}

func (c *cluster) Restart(ctx context.Context, keepData bool) error {
	for _, n := range c.all {
		n.proc.Kill()
	}
	for _, n := range c.all {
		if !keepData {
			if err := os.RemoveAll(filepath.Join(n.dir, "data")); err != nil {
				return err
			}
		}
	}
	return c.Heal(ctx)
}

// Leader is the server that leads the bucket.
func (c *cluster) Leader(ctx context.Context) (i int, err error) {
	err = environment.Eventually(ctx, func(ctx context.Context) error {
		return c.at(func(js jetstream.JetStream) error {
			s, err := js.Stream(ctx, "KV_lockport")
			if err != nil {
				return err
			}
			_, err = fmt.Sscanf(s.CachedInfo().Cluster.Leader, "n%d", &i)
			return err
		})
	})
	return i, err
}

func (c *cluster) LoseDisk(ctx context.Context, i int) (back bool, err error) {
	return true, c.wipe(ctx, c.all[i])
}

// wipe has a server come back without its disk.
func (c *cluster) wipe(ctx context.Context, n *node) error {
	n.proc.Kill()
	if err := os.RemoveAll(filepath.Join(n.dir, "data")); err != nil {
		return err
	}
	return n.Restart(ctx)
}

func (*cluster) Lag(context.Context) error      { return errors.ErrUnsupported }
func (*cluster) FailOver(context.Context) error { return errors.ErrUnsupported }
func (*cluster) Folder() (string, error)        { return "", errors.ErrUnsupported }
