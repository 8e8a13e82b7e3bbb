package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	client, err := b.ready(ctx)
	if errors.Is(err, errUnreachable) && b.link.config != nil {
		err = cmp.Or(b.link.diagnose(ctx), err)
	}
	if err != nil {
		return nil, err
	}
	// The comparison never holds, so nothing is written; etcd still checks the user's rights for both branches.
	prefix := b.layout.prefix
	_, err = b.write(ctx, request{
		when: []clientv3.Cmp{created(prefix+"/", -1)},
		then: []clientv3.Op{clientv3.OpPut(prefix+"/", ""),
			clientv3.OpDelete(prefix+"/\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)))},
		or: []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())},
	})
	switch {
	case errors.Is(err, driver.ErrUnknown): // the request changes nothing
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, cmp.Or(ctx.Err(), errors.New("no answer from etcd")))
	case err != nil:
		return nil, err
	}
	var notices []driver.Notice
	members, err := client.MemberList(ctx)
	err = classify(ctx, err, false)
	switch {
	case errors.Is(err, driver.ErrRefused):
		notices = append(notices, driver.Notice{ID: "members", Unknown: true,
			Text:   "The server refuses to list its cluster's members, so it is unknown whether one may fail.",
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
		notices = append(notices, notice.Members(voters, len(client.Endpoints()))...)
	}
	if b.link.plaintextPassword() {
		notices = append(notices, notice.InTheClear(client.Endpoints()...)...)
	}
	return notices, nil
}
