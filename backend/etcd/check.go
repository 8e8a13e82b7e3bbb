package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	w, err := b.link.wires(ctx)
	if err != nil {
		return nil, err
	}
	// The comparison never holds, so that nothing is written; what it would do is checked against the user's role all the same.
	probe := b.layout.prefix + "/"
	begin, end := []byte(b.layout.prefix), rangeEnd(b.layout.prefix)
	if len(begin) == 0 {
		begin = []byte{0}
	}
	a := b.flights.run(ctx, "", request{txn: &pb.TxnRequest{
		Compare: []*pb.Compare{created([]byte(probe), -1)},
		Success: []*pb.RequestOp{put([]byte(probe), nil, 0), {Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: append([]byte(probe), 0), RangeEnd: end}}}},
		Failure: []*pb.RequestOp{get(&pb.RangeRequest{Key: begin, RangeEnd: end, Limit: 1, KeysOnly: true})},
	}})
	switch {
	case errors.Is(a.err, driver.ErrUnknown): // it would have changed nothing
		return nil, fmt.Errorf("%w: no answer from etcd: %w", driver.ErrUnavailable, context.Cause(ctx))
	case a.err != nil:
		return nil, a.err
	}
	var notices []driver.Notice
	members, err := w.client.MemberList(ctx)
	switch {
	case err != nil && isRejected(classifyRead(ctx, err)):
		notices = append(notices, driver.Notice{ID: "members", Unknown: true,
			Text:   "The server does not let us ask for the members of its cluster, so it is not known whether one may fail.",
			Remedy: "Look yourself (etcdctl member list)."})
	case err != nil:
		return nil, classifyRead(ctx, err)
	default:
		notices = append(notices, checkMembers(w.client.Endpoints(), members.Members)...)
	}
	status, err := pb.NewMaintenanceClient(w.conn).Status(ctx, &pb.StatusRequest{})
	switch {
	case err != nil && isRejected(classifyRead(ctx, err)):
		notices = append(notices, driver.Notice{ID: "status", Unknown: true,
			Text:   "The server does not report its version and database size.",
			Remedy: "Look yourself (etcdctl endpoint status)."})
	case err != nil:
		return nil, classifyRead(ctx, err)
	default:
		notices = append(notices, checkStatus(status)...)
	}
	if b.link.clear {
		notices = append(notices, notice.InTheClear(w.client.Endpoints()...)...)
	}
	return notices, nil
}

// checkMembers tells what endangers locks in how the cluster is made up, and how we reach it.
func checkMembers(endpoints []string, members []*pb.Member) (notices []driver.Notice) {
	voters := 0
	for _, m := range members {
		if !m.IsLearner {
			voters++
		}
	}
	switch {
	case voters < 3:
		notices = append(notices, driver.Notice{ID: "quorum",
			Text:   fmt.Sprintf("The cluster has %d voting member(s), so that no lock can be taken or kept while one is away.", voters),
			Remedy: "Run three or five members."})
	case len(endpoints) < 2:
		notices = append(notices, driver.Notice{ID: "endpoints",
			Text:   fmt.Sprintf("Of %d members one endpoint is known to this client, which loses its locks when that one is away.", voters),
			Remedy: "Give it the others too: " + strings.Join(clientURLs(members), ", ") + "."})
	}
	return notices
}

func clientURLs(members []*pb.Member) (all []string) {
	for _, m := range members {
		all = append(all, m.ClientURLs...)
	}
	return all
}

// defaultQuota is etcd's default storage limit. etcd before 3.6 does not report the one that is configured.
const defaultQuota = 2 << 30

// corrected are the first patch releases of 3.4 and 3.5 without the errors that checkStatus names.
var corrected = map[int]int{4: 32, 5: 14}

// checkStatus reads what the member that we are connected to says of itself. Of an alarm the error of Check tells.
func checkStatus(s *pb.StatusResponse) (notices []driver.Notice) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(s.Version, "%d.%d.%d", &major, &minor, &patch); n == 3 && major == 3 && patch < corrected[minor] {
		notices = append(notices, driver.Notice{ID: "version",
			Text: fmt.Sprintf("etcd %s has known errors that put locks at risk: a deposed leader revokes leases that its successor keeps alive "+
				"(etcd-io/etcd#17425), and after a crash during compaction revisions, which are the fencing tokens, can go back (#17865).", s.Version),
			Remedy: fmt.Sprintf("Upgrade to 3.%d.%d or newer, or read whether your distribution has the corrections.", minor, corrected[minor])})
	}
	quota := s.DbSizeQuota
	if quota <= 0 {
		quota = defaultQuota
	}
	if s.DbSize > quota/5*4 {
		notices = append(notices, driver.Notice{ID: "database-size",
			Text:   fmt.Sprintf("The database has %d of %d MB. When it is full, no lock can be acquired; locks that are held stay.", s.DbSize>>20, quota>>20),
			Remedy: "Compact and defragment it, set --auto-compaction-retention=1h, or raise --quota-backend-bytes."})
	}
	return notices
}
