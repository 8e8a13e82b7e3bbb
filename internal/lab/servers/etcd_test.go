package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func putEtcd(ctx context.Context, e *Etcd, key, value string) error {
	return e.client.use(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, key, value)
		return err
	})
}

func put(t *testing.T, e *Etcd, key, value string) {
	t.Helper()
	require.NoError(t, poll(soon(t), func() error { return putEtcd(t.Context(), e, key, value) })) // while the leader changes, an etcd refuses
}

func get(ctx context.Context, e *Etcd, key string) (value string, err error) {
	err = e.client.use(ctx, func(ctx context.Context, c *clientv3.Client) error {
		reply, err := c.Get(ctx, key)
		if err == nil && len(reply.Kvs) > 0 {
			value = string(reply.Kvs[0].Value)
		}
		return err
	})
	return value, err
}

func requireValue(t *testing.T, e *Etcd, key, value string) {
	t.Helper()
	var got string
	require.NoError(t, poll(soon(t), func() (err error) { got, err = get(t.Context(), e, key); return err }))
	require.Equal(t, value, got)
}

// bothEtcds runs f for the installed etcd and the current one.
func bothEtcds(t *testing.T, f func(t *testing.T, o EtcdOptions)) {
	for name, o := range map[string]EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t, o) })
	}
}

func TestEtcd(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		const password = `p@ss "wörd" \`
		o.TLS, o.RootPassword = true, password
		e := NeedEtcd(t, o)
		require.Equal(t, "etcds://root:p%40ss%20%22w%C3%B6rd%22%20%5C@"+e.Addr(), e.URL())
		version, err := e.Version(t.Context())
		require.NoError(t, err)
		require.Regexp(t, `^3\.\d+\.\d+$`, version)
		require.Equal(t, o.Current, strings.HasPrefix(version, "3.7."))

		put(t, e, "k", "v")
		require.NoError(t, e.Restart(t.Context()))
		requireValue(t, e, "k", "v")

		stranger := e.client
		stranger.password = ""
		require.NoError(t, stranger.enableAuth(t.Context(), password), "as after a try of which the answer was lost")
		for _, wrong := range []string{"", "secret"} {
			stranger.password = wrong
			_, err := get(t.Context(), &Etcd{client: stranger}, "k")
			require.ErrorContains(t, err, "etcdserver: ")
			require.NotContains(t, err.Error(), "secret")
		}
		pem, err := os.ReadFile(e.CAFile())
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(pem))
		for _, c := range []struct {
			tls *tls.Config
			ok  bool
		}{{&tls.Config{RootCAs: roots}, true}, {&tls.Config{}, false}, {nil, false}} {
			client := e.client
			client.tls = c.tls
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // clientv3 goes on trying
			_, err = client.status(ctx)
			cancel()
			require.Equal(t, c.ok, err == nil)
		}
	})
}

// TestEtcdSettings asks for a lease that is too short, and gets the shortest there is. What etcd would read from its variables does not count.
func TestEtcdSettings(t *testing.T) {
	t.Setenv("ETCD_NAME", "other")
	t.Setenv("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:1")
	for tick, shortest := range map[time.Duration]int64{0: 1, 100 * time.Millisecond: 2} {
		e := NeedEtcd(t, EtcdOptions{Tick: tick, Flags: []string{"--max-txn-ops=1"}})
		require.Nil(t, e.TLSConfig())
		require.Empty(t, e.CAFile())
		require.NoError(t, e.client.use(t.Context(), func(ctx context.Context, c *clientv3.Client) error {
			lease, err := c.Grant(ctx, 1)
			require.NoError(t, err)
			require.Equal(t, shortest, lease.TTL)
			_, err = c.Txn(ctx).Then(clientv3.OpGet("k"), clientv3.OpGet("k")).Commit()
			require.ErrorContains(t, err, "too many operations")
			return nil
		}))
	}
}

// TestEtcdPortTaken meets another etcd on either port, which must not be taken for the new one.
func TestEtcdPortTaken(t *testing.T) {
	other := NeedEtcd(t, EtcdOptions{})
	taken := []int{other.port, other.port + etcdPeer}
	tried := 0
	e, err := startEtcd(t.Context(), EtcdOptions{}, etcdRole{name: etcdName()}, func(offset int) (int, error) {
		if tried++; tried <= len(taken) {
			return taken[tried-1], nil
		}
		return freePort(offset)
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	require.NotContains(t, taken, e.port)
	put(t, e, "k", "v")
	requireValue(t, other, "k", "")
	require.ErrorContains(t, e.ready(t.Context(), other.Addr(), 0), "not ours")
	require.ErrorContains(t, (&Etcd{name: etcdName()}).ready(t.Context(), other.Addr(), 0), "not ours")

	require.NoError(t, e.Stop())
	thief, err := net.Listen("tcp", e.Addr())
	require.NoError(t, err)
	require.ErrorIs(t, e.Restart(t.Context()), errPortTaken)
	require.NoError(t, thief.Close())
	require.NoError(t, e.Restart(t.Context()))
	requireValue(t, e, "k", "v")

	tried = 0
	c, err := startEtcdCluster(t.Context(), EtcdOptions{}, func(offset int) (int, error) {
		if tried++; tried == 2 {
			return other.port, nil
		}
		return freePort(offset)
	})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Equal(t, 2*etcdNodes, tried)
}

// TestCurrentEtcdThatCannotBeBuilt is as if go were missing.
func TestCurrentEtcdThatCannotBeBuilt(t *testing.T) {
	built := <-etcdBuild // forget it for now
	defer func() { <-etcdBuild; etcdBuild <- built }()
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("busy"))
	defer cancel()
	_, err := buildEtcd(ctx)
	require.ErrorContains(t, err, "waiting for a current etcd to be built: busy")

	etcdBuild <- ""
	t.Setenv("PATH", t.TempDir())
	_, err = buildEtcd(t.Context())
	var missing *NotInstalled
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, strconv.Quote("go"))
}

func TestEtcdCluster(t *testing.T) {
	bothEtcds(t, func(t *testing.T, o EtcdOptions) {
		o.TLS, o.RootPassword, o.Cuttable = true, "secret", true
		c := NeedEtcdCluster(t, o)
		require.Equal(t, "etcds://root:secret@"+strings.Join(c.Addrs(), ","), c.URL())
		put(t, c.Nodes[0], "k", "v")
		for _, node := range c.Nodes {
			requireValue(t, node, "k", "v")
		}
		lead := func() *Etcd {
			leader, err := c.Leader(t.Context())
			require.NoError(t, err)
			return leader
		}
		for _, fault := range []struct{ out, in func(*Etcd) error }{
			{(*Etcd).Kill, func(e *Etcd) error { return e.Restart(t.Context()) }},
			{(*Etcd).Freeze, (*Etcd).Thaw},
		} {
			old := lead()
			require.NoError(t, fault.out(old))
			next := lead()
			require.NotSame(t, old, next)
			put(t, next, "during", next.Addr())
			require.NoError(t, fault.in(old))
			requireValue(t, old, "during", next.Addr())
		}

		// A node that was restarted speaks through its proxy again.
		for i, restart := range []bool{false, true} {
			leader := lead()
			at := slices.Index(c.Nodes, leader)
			if restart {
				require.NoError(t, leader.Restart(t.Context()))
			}
			c.CutFromQuorum(at)
			put(t, c.Nodes[(at+1)%etcdNodes], "cut", strconv.Itoa(i))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := get(ctx, leader, "cut") // takes a majority
			cancel()
			require.Error(t, err, "it is not cut")
			c.Heal()
			requireValue(t, leader, "cut", strconv.Itoa(i))
		}
		require.NoError(t, c.Restart(t.Context()))
		requireValue(t, c.Nodes[0], "k", "v")
		leader := lead()
		for _, node := range c.Nodes {
			if node != leader {
				require.NoError(t, node.Kill())
			}
		}
		_, err := c.agreed(t.Context())
		require.ErrorContains(t, err, "no majority")
	})
	require.Panics(t, func() { new(EtcdCluster).CutFromQuorum(0) })
}
