package etcdfence

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// both calls f with the installed etcd and a current one.
func both(t *testing.T, f func(t *testing.T, p *place)) {
	for version, o := range map[string]servers.EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(version, func(t *testing.T) { f(t, newPlace(t, servers.NeedEtcd(t, o))) })
	}
}

// The promises of all fences.
func TestCases(t *testing.T) {
	both(t, func(t *testing.T, p *place) {
		fencetest.Cases(t, fencetest.Subject{
			Place:  fencetest.Place{Store: p.server.Addr(), Locks: p.server.URL()},
			Errors: errs, Addr: p.server.Addr(),
			Layout: "%020d",
			Text:   func(name string) string { return p.get("fence/" + name) },
			Remove: func(name string) { require.NoError(t, peer.ErrOf(p.client.Delete(t.Context(), "fence/"+name))) },
			Put:    func(name, odd string) { p.put("fence/"+name, odd) },
			Odd: []string{"", "0", "5", "x", "!", "x\n", "00000000000000000000", "0000000000000000005x",
				"-0000000000000000005", "9999999999999999999999"},
		})
	})
}

// A transaction keeps its own conditions and its own response.
func TestTxn(t *testing.T) {
	both(t, func(t *testing.T, p *place) {
		ctx := t.Context()
		g := registers(t, p.fence, 5)
		p.put(p.data, "100")
		swap := func(from, to string) (*clientv3.TxnResponse, error) {
			return g.Txn(ctx).
				If(clientv3.Compare(clientv3.Value(p.data), "=", from)).
				Then(clientv3.OpPut(p.data, to), clientv3.OpGet(p.data)).
				Else(clientv3.OpGet(p.data)).Commit()
		}
		r := peer.Must(swap("100", "90"))(t)
		require.Equal(t, []any{true, 2}, []any{r.Succeeded, len(r.Responses)})
		require.Equal(t, "90", string(r.Responses[1].GetResponseRange().Kvs[0].Value))
		require.NotZero(t, r.Header.Revision)
		r = peer.Must(swap("100", "80"))(t) // the caller's own condition does not concern the fence
		require.False(t, r.Succeeded)
		require.Equal(t, "90", string(r.Responses[0].GetResponseRange().Kvs[0].Value))
		require.True(t, peer.Must(g.Txn(ctx).Commit())(t).Succeeded)
		errs.OneLine(t, peer.ErrOf(g.Commit(ctx, clientv3.OpPut(p.data, "1"), clientv3.OpPut(p.data, "2"))), "", rpctypes.ErrDuplicateKey)
		registers(t, p.fence, 6)
		for _, from := range []string{"100", "90"} {
			errs.Stale(t, peer.ErrOf(swap(from, "70")), 5, 6)
		}
		require.Equal(t, "90", p.get(p.data))
	})
}

// etcd may still execute a transaction that it answered with a timeout or a lack of space.
func TestUnknownOutcome(t *testing.T) {
	f := peer.Must(New(&clientv3.Client{KV: clientv3.NewKVFromKVClient(nil, nil)}, "k"))(t)
	for answer, unknown := range map[error]bool{
		errors.New("broken"): true, context.Canceled: true, context.DeadlineExceeded: true,
		rpctypes.ErrTimeout: true, rpctypes.ErrTimeoutDueToLeaderFail: true, rpctypes.ErrTimeoutDueToConnectionLost: true,
		rpctypes.ErrStopped: true, rpctypes.ErrLeaderChanged: true, rpctypes.ErrNoSpace: true,
		rpctypes.Error(rpctypes.ErrGRPCNoLeader): true,
		rpctypes.ErrPermissionDenied:             false, rpctypes.ErrTooManyOps: false, rpctypes.ErrLeaseNotFound: false,
	} {
		err := (&Guard{fence: f}).explain("write", answer)
		errs.OneLine(t, err, "", answer)
		require.Equal(t, unknown, errors.Is(err, driver.ErrUnknown), "%v", err)
	}
}

func TestBadInput(t *testing.T) {
	require.ErrorContains(t, peer.ErrOf(New(nil, "k")), "nil")
	require.ErrorContains(t, peer.ErrOf(New(new(clientv3.Client), "k")), "clientv3.New")
	require.ErrorContains(t, peer.ErrOf(New(&clientv3.Client{KV: clientv3.NewKVFromKVClient(nil, nil)}, "")), "empty")
}

// The page's privileges suffice, even for nested operations (GHSA-rfx7-8w68-q57q). Without them the error says so.
func TestPrivileges(t *testing.T) {
	s := servers.NeedEtcd(t, servers.EtcdOptions{Current: true, RootPassword: "root-secret"})
	root := newClient(t, s.Addr(), "root", "root-secret")
	for user, keys := range map[string][]string{"may": {"fence", "data"}, "narrow": {"data"}} {
		require.NoError(t, peer.ErrOf(root.UserAdd(t.Context(), user, "user-secret")))
		require.NoError(t, peer.ErrOf(root.RoleAdd(t.Context(), user)))
		require.NoError(t, peer.ErrOf(root.UserGrantRole(t.Context(), user, user)))
		for _, key := range keys {
			require.NoError(t, peer.ErrOf(root.RoleGrantPermission(t.Context(), user, key, "", clientv3.PermissionType(clientv3.PermReadWrite))))
		}
	}
	as := func(user, password string) *Fence {
		return peer.Must(New(newClient(t, s.Addr(), user, password), "fence"))(t)
	}
	g := registers(t, as("may", "user-secret"), 5)
	require.NoError(t, write(t.Context(), g, "data", "x"))
	_, nested := g.Txn(t.Context()).If(clientv3.Compare(clientv3.Version("data"), ">", 0)).Then(clientv3.OpPut("elsewhere", "x")).Commit()
	_, narrow := as("narrow", "user-secret").Register(t.Context(), 6)
	_, nobody := as("", "").Register(t.Context(), 6)
	for _, denied := range []struct{ err, why error }{
		{write(t.Context(), g, "elsewhere", "x"), rpctypes.ErrPermissionDenied}, {nested, rpctypes.ErrPermissionDenied},
		{narrow, rpctypes.ErrPermissionDenied}, {nobody, rpctypes.ErrUserEmpty},
	} {
		errs.OneLine(t, denied.err, "", denied.why)
	}
}
