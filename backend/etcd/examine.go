package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
)

var _ driver.Examiner = (*Backend)(nil)

// memberTime bounds the question to one member.
const memberTime = 3 * time.Second

// Examine implements driver.Examiner. To learn the smallest TTL it has etcd grant a lease, which it revokes at once.
func (b *Backend) Examine(ctx context.Context, ttl time.Duration) (found driver.Examination, err error) {
	w, err := b.link.wires(ctx)
	if err != nil {
		return found, err
	}
	least, err := b.leastTTL(ctx, w)
	if err != nil {
		return found, err
	}
	found.TTL, found.Notices = judgeTTL(ttl, least)
	members := askMembers(ctx, w.client)
	if ctx.Err() != nil {
		return found, classifyRead(ctx, ctx.Err())
	}
	for _, m := range members {
		if m.status != nil {
			found.Server = "etcd " + m.status.Version
		}
	}
	found.Notices = append(found.Notices, judgeMembers(members)...)
	alarms, err := w.client.AlarmList(ctx)
	switch {
	case err == nil:
		found.Notices = append(found.Notices, judgeAlarms(alarms.Alarms)...)
	case isRejected(classifyRead(ctx, err)):
		found.Notices = append(found.Notices, driver.Notice{ID: "alarm", Unknown: true,
			Text:   "The server does not let us ask for its alarms, so it is not known whether it is out of space or its data are damaged.",
			Remedy: "Look yourself (etcdctl alarm list, as root)."})
	default:
		return found, classifyRead(ctx, err)
	}
	if b.link.clear {
		found.Notices = append(found.Notices, examine.InTheClear(w.client.Endpoints())...)
	}
	return found, nil
}

// leastTTL is the smallest TTL that etcd grants, 0 if it grants none at present.
func (b *Backend) leastTTL(ctx context.Context, w *wires) (time.Duration, error) {
	r, err := w.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 1})
	switch {
	case isFull(err): // of which the alarm tells
		return 0, nil
	case err != nil:
		return 0, classifyRead(ctx, err) // if it is there, it ends by itself in its TTL
	}
	_, err = w.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: r.ID})
	if err != nil && !isGone(err) {
		return 0, classifyRead(ctx, err)
	}
	return time.Duration(r.TTL) * time.Second, nil
}

// judgeTTL says what a claim for ttl gets where the smallest one is least, which etcd makes one and a half election timeouts, rounded up.
func judgeTTL(ttl, least time.Duration) (granted time.Duration, notices []driver.Notice) {
	granted = (ttl + time.Second - 1).Truncate(time.Second)
	switch {
	case granted < least:
		return least, []driver.Notice{{ID: "ttl-minimum",
			Text:   fmt.Sprintf("The TTL of %v is under the server's minimum of %v: every claim is refused.", ttl, least),
			Remedy: fmt.Sprintf("Use a TTL of %v or more, or shorten etcd's --election-timeout, which sets that minimum.", least)}}
	case granted < 2*least:
		return granted, []driver.Notice{{ID: "election-timeout",
			Text: fmt.Sprintf("When the leader dies, the next one may take two election timeouts to come, about %v: longer than the two thirds of the TTL of %v for which a hold "+
				"is certain to last without a renewal.", (least * 4 / 3).Round(100*time.Millisecond), ttl),
			Remedy: fmt.Sprintf("Use a TTL of %v or more, or shorten etcd's --election-timeout.", 2*least)}}
	}
	return granted, nil
}

// member is what an endpoint said.
type member struct {
	endpoint string
	status   *clientv3.StatusResponse // nil: it did not answer
}

func askMembers(ctx context.Context, client *clientv3.Client) []member {
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	endpoints := client.Endpoints()
	members := make([]member, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() {
			members[i].endpoint = endpoint
			if status, err := client.Status(ctx, endpoint); err == nil {
				members[i].status = status
			}
		})
	}
	all.Wait()
	return members
}

// usualQuota is how much etcd stores where nothing else is configured; etcd before 3.6 does not say how much it is.
const usualQuota = 2 << 30

// judgeMembers reads what the members said.
func judgeMembers(members []member) (notices []driver.Notice) {
	add := func(more ...driver.Notice) {
		for _, n := range more {
			if !slices.ContainsFunc(notices, func(have driver.Notice) bool { return have.ID == n.ID }) {
				notices = append(notices, n)
			}
		}
	}
	var away []string
	for _, m := range members {
		where := ""
		if len(members) > 1 {
			where = "Member " + m.endpoint + ": "
		}
		s := m.status
		if s == nil {
			away = append(away, m.endpoint)
			continue
		}
		add(examine.Defects(where, "etcd", s.Version, defects)...)
		if s.IsLearner {
			add(driver.Notice{ID: "learner",
				Text:   fmt.Sprintf("%s is a learner, which answers nothing that locks ask for: requests that go to it fail, and cost time.", m.endpoint),
				Remedy: "Name voting members only, or promote it (etcdctl member promote)."})
		}
		quota := s.DbSizeQuota
		if quota <= 0 {
			quota = usualQuota
		}
		if s.DbSize > quota/5*4 {
			add(driver.Notice{ID: "database-size",
				Text: fmt.Sprintf("%sThe database has %d of %d MB: when it is full, no lock can be taken, though those that are held stay.", where,
					s.DbSize>>20, quota>>20),
				Remedy: "Compact and defragment it (etcdctl compact, etcdctl defrag), set --auto-compaction-retention=1h, or raise --quota-backend-bytes."})
		}
	}
	if len(away) > 0 && len(away) < len(members) {
		add(driver.Notice{ID: "endpoints-away",
			Text:   fmt.Sprintf("Of %d endpoints %d do not answer (%s): the cluster may fail with the next member.", len(members), len(away), strings.Join(away, ", ")),
			Remedy: "Bring them back, or take them out of the URL and the cluster."})
	}
	return notices
}

// judgeAlarms reads the list of alarms.
func judgeAlarms(alarms []*pb.AlarmMember) []driver.Notice {
	var kinds []string
	for _, a := range alarms {
		if kind := a.Alarm.String(); a.Alarm != pb.AlarmType_NONE && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	return []driver.Notice{{ID: "alarm",
		Text: fmt.Sprintf("etcd has raised an alarm (%s): with NOSPACE no lock can be taken, with CORRUPT members have different data and may grant a lock twice.",
			strings.Join(kinds, ", ")),
		Remedy: "NOSPACE: compact, defragment, etcdctl alarm disarm. CORRUPT: replace the member that differs."}}
}
