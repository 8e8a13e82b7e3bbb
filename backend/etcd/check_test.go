package etcd

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// opens opens rawURL as a user does.
func opens(t *testing.T, rawURL string) (*lockport.Client, error) {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	c, err := lockport.Open(ctx, rawURL, lockport.Logger(nil), lockport.TTL(2*time.Second))
	if err == nil {
		t.Cleanup(func() { require.NoError(t, c.Close()) })
	}
	return c, err
}

// says checks that err is one clear line of the class.
func says(t *testing.T, err, class error, words ...string) {
	t.Helper()
	require.ErrorIs(t, err, class)
	for _, w := range words {
		require.ErrorContains(t, err, w)
	}
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "secret")
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]servers.EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o.RootPassword = "root-secret"
			s := servers.NeedEtcd(t, o)
			as := func(user, password string) string {
				u, err := url.Parse(s.URL())
				require.NoError(t, err)
				u.User = nil
				if user != "" {
					u.User = url.UserPassword(user, password)
				}
				return u.String()
			}
			config := newConfig([]string{s.Addr()})
			config.Username, config.Password = "root", "root-secret"
			root, err := clientv3.New(*config)
			require.NoError(t, err)
			t.Cleanup(func() { _ = root.Close() })
			for user, prefix := range map[string]string{"may": "lockport/", "elsewhere": "app/"} {
				_, err := root.UserAdd(t.Context(), user, "user-secret")
				require.NoError(t, err)
				_, err = root.RoleAdd(t.Context(), user)
				require.NoError(t, err)
				_, err = root.RoleGrantPermission(t.Context(), user, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
				require.NoError(t, err)
				_, err = root.UserGrantRole(t.Context(), user, user)
				require.NoError(t, err)
			}
			for _, rawURL := range []string{s.URL(), as("may", "user-secret"), as("elsewhere", "user-secret") + "?prefix=app/"} {
				c, err := opens(t, rawURL)
				require.NoError(t, err)
				l, err := c.Acquire(t.Context(), "x")
				require.NoError(t, err)
				before, _ := l.Deadline()
				eventually(t, func() bool { now, _ := l.Deadline(); return now.After(before) }, "a renewal")
				other, err := opens(t, rawURL)
				require.NoError(t, err)
				next := acquire(t, other, "x")
				kvs, err := root.Get(t.Context(), "", clientv3.WithPrefix())
				require.NoError(t, err)
				require.NotEmpty(t, kvs.Kvs)
				require.NoError(t, l.Release(t.Context()))
				require.NoError(t, next.gets(t).Release(t.Context()))
			}
			_, err = opens(t, as("root", "not-the-secret"))
			says(t, err, lockport.ErrRefused, "user", "password")
			_, err = opens(t, as("nobody", "secret"))
			says(t, err, lockport.ErrRefused, "user", "password")
			_, err = opens(t, as("", ""))
			says(t, err, lockport.ErrRefused, "user")
			_, err = opens(t, as("elsewhere", "user-secret"))
			says(t, err, lockport.ErrRefused, "grant", "prefix")
			c := newLocker(t, as("elsewhere", "user-secret"), 2*time.Second) // without Open's check
			_, err = c.Acquire(t.Context(), "x")
			says(t, err, lockport.ErrRefused, "grant", "prefix")
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{TLS: true})
	base, _, _ := strings.Cut(s.URL(), "?")
	c, err := opens(t, base+"?ca="+url.QueryEscape(s.CAFile()))
	require.NoError(t, err)
	l, err := c.Acquire(t.Context(), "x")
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	_, err = opens(t, base)
	says(t, err, lockport.ErrRefused, "TLS", "CA")
	_, err = opens(t, base+"?servername=elsewhere&ca="+url.QueryEscape(s.CAFile()))
	says(t, err, lockport.ErrRefused, "TLS", "elsewhere")
	_, err = opens(t, strings.Replace(base, "etcds:", "etcd:", 1))
	says(t, err, lockport.ErrUnavailable)
	plain := servers.NeedEtcd(t, servers.EtcdOptions{})
	_, err = opens(t, strings.Replace(plain.URL(), "etcd:", "etcds:", 1))
	says(t, err, lockport.ErrUnavailable, "TLS")
}

func TestServerGone(t *testing.T) {
	t.Parallel()
	addr := servers.Nobody(t)
	for _, user := range []string{"", "root:secret@"} {
		_, err := opens(t, "etcd://"+user+addr)
		says(t, err, lockport.ErrUnavailable, "refused")
	}
	// A server that says nothing keeps nobody longer than his context, whether there is a token to be asked for first or not.
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	proxy := newProxy(t, s.Addr())
	proxy.Freeze()
	for _, user := range []string{"", "root:secret@"} {
		b, err := peer.Open(t.Context(), "etcd://"+user+proxy.Addr())
		require.NoError(t, err)
		n := &node{Backend: b.(*Backend), t: t}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		_, err = n.TryAcquire(ctx, n.request("x"))
		took := time.Since(start)
		cancel()
		says(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, took, time.Second)
		closing := time.Now()
		require.NoError(t, b.Close())
		require.Less(t, time.Since(closing), time.Second)
	}
}

func TestTTLUnderTheServersMinimum(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Tick: 100 * time.Millisecond})
	n := newNode(t, s.URL(), "a")
	req := n.request("x")
	req.TTL = time.Second
	_, err := n.try(req)
	says(t, err, driver.ErrRefused, "minimum of 2s", "election-timeout")
	require.Empty(t, n.claims)
	req.TTL = 1500 * time.Millisecond // rounded up
	lease := n.takes(req)
	require.Greater(t, time.Until(lease.Grant().Until), 1500*time.Millisecond)
	frees(t, lease)
	for _, ttl := range []time.Duration{0, 999 * time.Millisecond, maxTTL + 1} {
		req.TTL = ttl
		_, err := n.try(req)
		says(t, err, driver.ErrRefused, "seconds")
	}
}

func TestOutOfSpace(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Flags: []string{"--quota-backend-bytes=100000"}})
	etcd := newClient(t, s.URL())
	n := newNode(t, s.URL(), "a")
	lease := n.takes(n.request("x"))
	eventually(t, func() bool {
		_, err := etcd.Put(t.Context(), "fill", strings.Repeat("x", 20_000))
		return err != nil
	}, "a full store")
	_, err := n.try(n.request("y"))
	says(t, err, driver.ErrUnknown, "space", "disarm")
	_, err = driver.Renew(t.Context(), n, lease)
	require.NoError(t, err)
	frees(t, lease) // giving back needs no space
}

func TestNotices(t *testing.T) {
	t.Parallel()
	ids := func(rawURL string) (all []string) { // without that of the version, which depends on what is installed
		b, err := peer.Open(t.Context(), rawURL)
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		notices, err := b.(*Backend).Check(ctx)
		require.NoError(t, err)
		for _, n := range notices {
			require.NotEmpty(t, n.Text)
			require.NotEmpty(t, n.Remedy)
			if n.ID != "version" {
				all = append(all, n.ID)
			}
		}
		return all
	}
	require.Equal(t, []string{"quorum"}, ids(servers.NeedEtcd(t, servers.EtcdOptions{}).URL()))
	c := servers.NeedEtcdCluster(t, servers.EtcdOptions{Tick: environment.EtcdTick})
	require.Empty(t, ids(c.URL()))
	require.Equal(t, []string{"endpoints"}, ids(c.Nodes[0].URL()))
}

func TestCheckStatus(t *testing.T) {
	t.Parallel()
	const mega = 1 << 20
	for want, s := range map[string]*clientv3.StatusResponse{
		"":                      {Version: "3.4.32", DbSize: 1600 * mega},
		"version":               {Version: "3.4.31"},
		"database-size":         {Version: "3.5.14", DbSize: 1640 * mega},
		"version,database-size": {Version: "3.5.13", DbSize: defaultQuota},
	} {
		var ids []string
		for _, n := range checkStatus(s) {
			ids = append(ids, n.ID)
		}
		require.Equal(t, want, strings.Join(ids, ","))
	}
	require.Empty(t, checkStatus(&clientv3.StatusResponse{Version: "?"}))
}

func TestPasswordInTheClear(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]bool{
		"etcd://u:secret@etcd.example.com": true, "etcd://etcd.example.com": false, "etcds://u:secret@etcd.example.com": false,
	} {
		b, err := peer.Open(t.Context(), rawURL)
		require.NoError(t, err)
		require.Equal(t, want, b.(*Backend).link.clear(), rawURL)
		require.NoError(t, b.Close())
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	n, other := newNode(t, s.URL(), "a"), newNode(t, s.URL(), "b")
	req, waits := n.request("app/x"), other.request("app/x")
	lease := n.takes(req)
	_, err := other.try(waits)
	require.ErrorIs(t, err, driver.ErrHeld)
	n.takes(n.request("app-y"))
	_, err = etcd.Put(t.Context(), defaultLayout.of("app/z")+"foreign", "")
	require.NoError(t, err)

	status, err := n.Inspect(t.Context(), "app/x")
	require.NoError(t, err)
	require.InDelta(t, req.TTL.Seconds(), time.Until(status.Expires).Seconds(), 1.5)
	status.Expires = time.Time{}
	require.Equal(t, driver.Status{Name: "app/x", Held: true, Owner: req.Owner, Token: lease.Grant().Token, Waiters: 1}, status)
	list, err := n.List(t.Context(), "app/")
	require.NoError(t, err)
	slices.SortFunc(list, func(a, b driver.Status) int { return strings.Compare(a.Name, b.Name) })
	require.Len(t, list, 2)
	require.Equal(t, []any{"app/x", "app/z", true, "foreign"}, []any{list[0].Name, list[1].Name, list[1].Foreign, list[1].Owner})

	require.ErrorIs(t, n.Break(t.Context(), "app/x", waits.Owner), driver.ErrLost, "it waits")
	require.NoError(t, n.Break(t.Context(), "app/z", "foreign"))
	require.ErrorIs(t, n.Break(t.Context(), "app/z", "foreign"), driver.ErrLost)
	list, err = n.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, list, 2)

	// More than fit on a page.
	for i := range 2*listPage + 10 {
		_, err := etcd.Put(t.Context(), defaultLayout.of("many"+name(i))+"k", "")
		require.NoError(t, err)
	}
	list, err = n.List(t.Context(), "many")
	require.NoError(t, err)
	require.Len(t, list, 2*listPage+10)
}
