package etcdfence

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport/internal/lab/servers"
)

// The page's privileges suffice, even for nested operations (GHSA-rfx7-8w68-q57q). Without them the error says so.
func TestPrivileges(t *testing.T) {
	s := servers.NeedEtcd(t, servers.EtcdOptions{Current: true, RootPassword: "root-secret"})
	login := func(user, password string) *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr()}, Username: user, Password: password, Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	root := login("root", "root-secret")
	for user, keys := range map[string][]string{"may": {"fence", "data"}, "narrow": {"data"}} {
		_, err := root.UserAdd(t.Context(), user, "user-secret")
		require.NoError(t, err)
		_, err = root.RoleAdd(t.Context(), user)
		require.NoError(t, err)
		for _, key := range keys {
			_, err = root.RoleGrantPermission(t.Context(), user, key, "", clientv3.PermissionType(clientv3.PermReadWrite))
			require.NoError(t, err)
		}
		_, err = root.UserGrantRole(t.Context(), user, user)
		require.NoError(t, err)
	}
	g := registers(t, newFence(t, login("may", "user-secret"), "fence"), 5)
	require.NoError(t, write(t.Context(), g, "data", "x"))
	_, nested := g.Txn(t.Context()).If(clientv3.Compare(clientv3.Version("data"), ">", 0)).Then(clientv3.OpPut("elsewhere", "x")).Commit()
	_, narrow := newFence(t, login("narrow", "user-secret"), "fence").Register(t.Context(), 6)
	_, nobody := newFence(t, newClient(t, s.Addr()), "fence").Register(t.Context(), 6)
	for _, denied := range []struct{ err, why error }{
		{write(t.Context(), g, "elsewhere", "x"), rpctypes.ErrPermissionDenied}, {nested, rpctypes.ErrPermissionDenied},
		{narrow, rpctypes.ErrPermissionDenied}, {nobody, rpctypes.ErrUserEmpty},
	} {
		require.ErrorIs(t, denied.err, denied.why)
		errs.OneLine(t, denied.err)
	}
}
