package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
		notices = append(notices, checkMembers(client.Endpoints(), members)...)
	}
	if status := firstStatus(ctx, client); status != nil {
		notices = append(notices, checkStatus(status)...)
	} else {
		notices = append(notices, driver.Notice{ID: "status", Unknown: true,
			Text:   "The server does not report its version and database size.",
			Remedy: "Check with etcdctl endpoint status."})
	}
	if b.link.plaintextPassword() {
		notices = append(notices, notice.InTheClear(client.Endpoints()...)...)
	}
	return notices, nil
}

// statusTime bounds the wait for each member: one may be down while the others serve.
const statusTime = 500 * time.Millisecond

// firstStatus returns the status of the first member that reports it, over a connection of its own; nil: none does.
func firstStatus(ctx context.Context, client *clientv3.Client) *clientv3.StatusResponse {
	for _, endpoint := range client.Endpoints() {
		limited, cancel := context.WithTimeout(ctx, statusTime)
		status, err := client.Status(limited, endpoint)
		cancel()
		if err == nil {
			return status
		}
	}
	return nil
}

// checkMembers reports risks in the cluster's size and in how this client reaches it.
func checkMembers(endpoints []string, cluster *clientv3.MemberListResponse) []driver.Notice {
	voters := 0
	var addrs []string
	for _, m := range cluster.Members {
		addrs = append(addrs, m.ClientURLs...)
		if !m.IsLearner {
			voters++
		}
	}
	if few := notice.Quorum(voters); few != nil || len(endpoints) > 1 {
		return few
	}
	return []driver.Notice{{ID: "endpoints",
		Text:   fmt.Sprintf("This client knows one endpoint of %d members, and loses its locks when that one is down.", voters),
		Remedy: "Add the others: " + strings.Join(addrs, ", ") + "."}}
}

// defaultQuota is etcd's default storage limit. Before 3.6 neither etcd nor clientv3 reports the configured one.
const defaultQuota = 2 << 30

// corrected are the first patch releases of 3.4 and 3.5 without the bugs that checkStatus reports.
var corrected = map[int]int{4: 32, 5: 14}

// checkStatus reports risks in one member's status. Alarms surface as errors of Check.
func checkStatus(s *clientv3.StatusResponse) (notices []driver.Notice) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(s.Version, "%d.%d.%d", &major, &minor, &patch); n == 3 && major == 3 && patch < corrected[minor] {
		notices = append(notices, driver.Notice{ID: "version",
			Text: fmt.Sprintf("etcd %s has known bugs that put locks at risk: a deposed leader revokes leases that its successor keeps alive "+
				"(etcd-io/etcd#17425), and after a crash during compaction revisions, which are the fencing tokens, can go back (#17865).", s.Version),
			Remedy: fmt.Sprintf("Upgrade to 3.%d.%d or newer, or check that your distribution backports the fixes.", minor, corrected[minor])})
	}
	if s.DbSize > defaultQuota/5*4 {
		notices = append(notices, driver.Notice{ID: "database-size",
			Text:   fmt.Sprintf("The database has %d MB; etcd's default limit is %d MB. When it is full, you cannot acquire locks; held locks stay.", s.DbSize>>20, defaultQuota>>20),
			Remedy: "Compact and defragment it, set --auto-compaction-retention=1h, or raise --quota-backend-bytes."})
	}
	return notices
}
