package etcd

import (
	"cmp"
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	var endpoints []string
	_, err := do(ctx, b, false, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		// The comparison never holds, so nothing is written; etcd still checks the user's rights for both branches.
		prefix := b.layout.prefix
		return client.Txn(ctx).If(created(prefix+"/", -1)).
			Then(clientv3.OpPut(prefix+"/", ""), clientv3.OpDelete(prefix+"/\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)))).
			Else(clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())).Commit()
	})
	if errors.Is(err, errUnreachable) && b.config != nil {
		err = cmp.Or(b.diagnose(ctx), err)
	}
	if err != nil {
		return nil, err
	}
	var notices []driver.Notice
	members, err := do(ctx, b, false, func(ctx context.Context, client *clientv3.Client) (*clientv3.MemberListResponse, error) {
		if client.Cluster == nil { // a caller's, made of interfaces
			return nil, rpctypes.ErrPermissionDenied
		}
		endpoints = client.Endpoints()
		return client.MemberList(ctx)
	})
	switch {
	case errors.Is(err, driver.ErrRefused):
		notices = append(notices, driver.Notice{ID: "members", Unknown: true,
			Text:   "The server or the client refuses to list the cluster's members, so it is unknown whether one may fail.",
			Remedy: "Check with etcdctl member list."})
	case err != nil:
		return nil, err
	default:
		voters := 0
		for _, m := range members.Members {
			if !m.IsLearner {
				voters++
			}
		}
		notices = append(notices, notice.Members(voters, len(endpoints))...)
	}
	if b.plaintextPassword() {
		notices = append(notices, notice.InTheClear(endpoints...)...)
	}
	return notices, nil
}
