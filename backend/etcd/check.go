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
		err = cmp.Or(b.link.dial(ctx), err)
	}
	if err != nil {
		return nil, err
	}
	// The comparison never holds, so that nothing is written; what it would do is checked against the user's role all the same.
	prefix := b.layout.prefix
	_, err = b.write(ctx, request{
		when: []clientv3.Cmp{created(prefix+"/", -1)},
		then: []clientv3.Op{clientv3.OpPut(prefix+"/", ""),
			clientv3.OpDelete(prefix+"/\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)))},
		or: []clientv3.Op{clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())},
	})
	switch {
	case errors.Is(err, driver.ErrUnknown): // it would have changed nothing
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
			Text:   "The server does not let us ask for the members of its cluster, so it is not known whether one may fail.",
			Remedy: "Look yourself (etcdctl member list)."})
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
			Remedy: "Look yourself (etcdctl endpoint status)."})
	}
	if b.link.clear() {
		notices = append(notices, notice.InTheClear(client.Endpoints()...)...)
	}
	return notices, nil
}

// statusTime is how long one member is waited for: it may be away, and the others serve.
const statusTime = 500 * time.Millisecond

// firstStatus is the status of the first member that tells it, to which clientv3 connects for it; nil: none does.
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

// checkMembers tells what endangers locks in how the cluster is made up, and how we reach it.
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
		Text:   fmt.Sprintf("Of %d members one endpoint is known to this client, which loses its locks when that one is away.", voters),
		Remedy: "Give it the others too: " + strings.Join(addrs, ", ") + "."}}
}

// defaultQuota is etcd's default storage limit. Before 3.6 neither etcd nor clientv3 reports the one that is configured.
const defaultQuota = 2 << 30

// corrected are the first patch releases of 3.4 and 3.5 without the errors that checkStatus names.
var corrected = map[int]int{4: 32, 5: 14}

// checkStatus reads what the member that we are connected to says of itself. Of an alarm the error of Check tells.
func checkStatus(s *clientv3.StatusResponse) (notices []driver.Notice) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(s.Version, "%d.%d.%d", &major, &minor, &patch); n == 3 && major == 3 && patch < corrected[minor] {
		notices = append(notices, driver.Notice{ID: "version",
			Text: fmt.Sprintf("etcd %s has known errors that put locks at risk: a deposed leader revokes leases that its successor keeps alive "+
				"(etcd-io/etcd#17425), and after a crash during compaction revisions, which are the fencing tokens, can go back (#17865).", s.Version),
			Remedy: fmt.Sprintf("Upgrade to 3.%d.%d or newer, or read whether your distribution has the corrections.", minor, corrected[minor])})
	}
	if s.DbSize > defaultQuota/5*4 {
		notices = append(notices, driver.Notice{ID: "database-size",
			Text:   fmt.Sprintf("The database has %d of %d MB, by default. When it is full, no lock can be acquired; locks that are held stay.", s.DbSize>>20, defaultQuota>>20),
			Remedy: "Compact and defragment it, set --auto-compaction-retention=1h, or raise --quota-backend-bytes."})
	}
	return notices
}
