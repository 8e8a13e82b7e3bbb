package etcd

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestAuthentication(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]servers.EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o.RootPassword = "root-secret"
			s := servers.NeedEtcd(t, o)
			as := func(login string) string { return "etcd://" + login + s.Addr() }
			for user, prefix := range map[string]string{"may": "lockport/", "elsewhere": "app/"} {
				require.NoError(t, s.Use(t.Context(), func(root *clientv3.Client) error {
					end, readWrite := clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)
					return errors.Join(peer.ErrOf(root.UserAdd(t.Context(), user, "user-secret")), peer.ErrOf(root.RoleAdd(t.Context(), user)),
						peer.ErrOf(root.RoleGrantPermission(t.Context(), user, prefix, end, readWrite)), peer.ErrOf(root.UserGrantRole(t.Context(), user, user)))
				}))
			}
			for _, rawURL := range []string{s.URL(), as("may:user-secret@"), as("elsewhere:user-secret@") + "?prefix=app/"} {
				peer.Notices(t, rawURL)
				l := peer.Holds(t, newLocker(t, rawURL, 2*time.Second), "x")
				before, _ := l.Deadline()
				peer.Until(t, func() bool { now, _ := l.Deadline(); return now.After(before) })
				next := peer.Acquiring(t, newLocker(t, rawURL, 2*time.Second), "x")
				notYet(t, next, "it is held")
				require.NoError(t, l.Release(t.Context()))
				require.NoError(t, peer.Eventually(t, next).Release(t.Context()))
			}
			for rawURL, what := range map[string]string{
				as("root:not-the-secret@"): "rejected the user or password", as("nobody:secret@"): "rejected the user or password",
				as(""): "user", as("elsewhere:user-secret@"): "grant one of its roles readwrite on their prefix",
			} {
				peer.Refuses(t, rawURL, driver.ErrRefused, what)
				n := newNode(t, rawURL)
				peer.SaysOneLine(t, peer.Fails(t, n, n.Request("x")), driver.ErrRefused, what)
			}
			var unknown atomic.Int64
			n := newNode(t, as("may:user-secret@"))
			n.config.DialOptions = append(n.config.DialOptions, rejects(&unknown, rpctypes.ErrGRPCInvalidAuthToken))
			unknown.Store(2) // clientv3 requests a new token once
			peer.SaysOneLine(t, peer.Fails(t, n, n.Request("x")), driver.ErrUnavailable, "new token")
			n.Frees(n.Takes(n.Request("x")))
			require.NoError(t, s.Use(t.Context(), func(root *clientv3.Client) error {
				return peer.ErrOf(root.UserChangePassword(t.Context(), "may", "changed"))
			}))
			peer.SaysOneLine(t, peer.Fails(t, n, n.Request("x")), driver.ErrRefused, "rejected the user or password")
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{TLS: true})
	base, _, _ := strings.Cut(s.URL(), "?")
	ca := url.QueryEscape(s.CAFile())
	n := newNode(t, base+"?ca="+ca+"&cert="+ca+"&key="+strings.Replace(ca, ".crt", ".key", 1))
	n.Frees(n.Takes(n.Request("x")))
	require.Len(t, n.config.TLS.Certificates, 1)
	plain := servers.NeedEtcd(t, servers.EtcdOptions{})
	peer.Refuses(t, base, driver.ErrRefused, "the TLS handshake with etcd failed: check the CA")
	peer.Refuses(t, base+"?servername=elsewhere&ca="+ca, driver.ErrRefused, "elsewhere")
	peer.Refuses(t, strings.Replace(base, "etcds:", "etcd:", 1), driver.ErrUnavailable, "")
	peer.Refuses(t, strings.Replace(plain.URL(), "etcd:", "etcds:", 1), driver.ErrUnavailable, "TLS, and does etcd accept the client's certificate?")

	silent := peer.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = silent.Close() }()
	both := newNode(t, peer.Via(t, base, silent.Addr().String(), s.Addr())+"?ca="+ca)
	require.NoError(t, both.diagnose(t.Context()), "one endpoint answers")
}

// A silent server delays no caller beyond its context, nor Close, while clientv3 requests a token.
func TestServerGone(t *testing.T) {
	t.Parallel()
	peer.Refuses(t, "etcd://root:secret@127.0.0.1:1", driver.ErrUnavailable, "refused")

	proxy := peer.Proxy(t, servers.NeedEtcd(t, servers.EtcdOptions{}).Addr())
	proxy.Freeze()
	n := newNode(t, "etcd://root:secret@"+proxy.Addr())
	start := time.Now()
	_, err := n.TryAcquire(peer.Within(t, 50*time.Millisecond), peer.Once(n.Request("x")))
	require.Less(t, time.Since(start), time.Second)
	require.Empty(t, n.claims)
	peer.SaysOneLine(t, err, driver.ErrUnavailable, "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	start = time.Now()
	require.NoError(t, n.Backend.Close())
	require.Less(t, time.Since(start), time.Second)
}

func TestTTLUnderTheServersMinimum(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Tick: 100 * time.Millisecond})
	n := newNode(t, s.URL())
	req := n.Request("x")
	req.TTL = time.Second
	peer.SaysOneLine(t, peer.Fails(t, n, req), driver.ErrRefused, "minimum of 2s: use a longer TTL, or shorten etcd's --election-timeout")
	n.Abandons(req)
	require.Empty(t, n.claims)
	req.TTL = 1500 * time.Millisecond // rounded up
	sent, lease := time.Now(), n.Takes(req)
	require.Greater(t, lease.Grant().Until.Sub(sent), req.TTL)
	n.Frees(lease)
	for _, ttl := range []time.Duration{0, 999 * time.Millisecond, driver.MaxTTL + 1} {
		req.TTL = ttl
		peer.SaysOneLine(t, peer.Fails(t, n, req), driver.ErrRefused, "seconds")
	}
}

func TestOutOfSpace(t *testing.T) {
	_, etcd, n := alone(t, "--quota-backend-bytes=100000")
	lease, waits := n.Takes(n.Request("x")), n.Request("x")
	n.Waits(waits)
	peer.Until(t, func() bool { return peer.ErrOf(etcd.Put(t.Context(), "fill", strings.Repeat("x", 20_000))) != nil })
	peer.SaysOneLine(t, peer.Fails(t, n, n.Request("y")), driver.ErrUnknown, "out of space")
	peer.SaysOneLine(t, peer.ErrOf(n.Check(t.Context())), driver.ErrUnavailable, "out of space")
	peer.Extends(t, n, lease)
	n.Frees(lease)              // a release needs no space
	n.Frees(n.TakesSoon(waits)) // a queued waiter has its key
}

func TestNotices(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"quorum"}, peer.Notices(t, servers.NeedEtcd(t, servers.EtcdOptions{}).URL()))
	c := servers.NeedEtcdCluster(t, servers.EtcdOptions{Tick: environment.EtcdTick})
	require.Empty(t, peer.Notices(t, c.URL()))
	require.Equal(t, []string{"endpoints"}, peer.Notices(t, c.Nodes[0].URL()))
	own := newClient(t, c.Nodes[0].Addr())
	bare := newNodeOn(t, &clientv3.Client{KV: own.KV, Lease: own.Lease, Watcher: own.Watcher})
	require.Equal(t, []string{"members?"}, peer.IDs(peer.Must(bare.Check(t.Context()))(t)))
	peer.SaysOneLine(t, classify(t.Context(), rpctypes.ErrGRPCNotSupportedForLearner, true), driver.ErrUnavailable, "learner")
	peer.SaysOneLine(t, classify(t.Context(), status.Error(codes.InvalidArgument, "unsupported operations in txn request"), true), driver.ErrRefused, "txn")
	require.True(t, newNode(t, "etcd://u:secret@etcd.example.com").plaintextPassword())
	require.False(t, newNode(t, "etcd://etcd.example.com").plaintextPassword())
	require.False(t, newNode(t, "etcds://u:secret@etcd.example.com").plaintextPassword())
}

// Cases that the suite lacks: a foreign client's lock, and waiters.
func TestListAndBreak(t *testing.T) {
	_, etcd, n := alone(t)
	for i := range 12 {
		require.NoError(t, peer.ErrOf(etcd.Put(t.Context(), defaultLayout.prefixes(name(i))[0]+"foreign", "")))
	}
	st := peer.Shows(t, n, name(0))
	require.Equal(t, driver.Status{Name: name(0), Held: true, Owner: "foreign", Foreign: true, Token: st.Token}, st)
	require.NoError(t, n.Break(t.Context(), name(0), "foreign"))
	require.ErrorIs(t, n.Break(t.Context(), name(0), "foreign"), driver.ErrLost)
	held, waits, behind := n.Takes(n.Request("x")), n.Request("x"), n.Request("x")
	require.WithinDuration(t, held.Grant().Until, peer.Shows(t, n, "x").Expires, time.Second)
	n.Waits(waits)
	n.Waits(behind)
	require.ErrorIs(t, n.Break(t.Context(), "x", waits.Owner), driver.ErrLost)
	n.Frees(held)
	for _, req := range []driver.Request{waits, behind} {
		lease := n.Takes(req)
		require.Equal(t, req.Owner == waits.Owner, lease.Grant().Contended)
		n.Frees(lease)
	}
	permit := peer.Permit(n.Request(name(1)), 3)
	n.Takes(permit)
	for _, prefix := range []string{"lock-", ""} {
		list := peer.Lists(t, n, prefix)
		require.Len(t, list, 12, "the locks that are left, and the permit")
		i := slices.IndexFunc(list, func(st driver.Status) bool { return st.Permits > 0 })
		require.Equal(t, []any{name(1), 3, permit.Owner}, []any{list[i].Name, list[i].Permits, list[i].Owner})
	}
}
