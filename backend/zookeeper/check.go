package zookeeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// checkName is the lock that Check takes.
const checkName = "lockport-check"

// Check implements driver.Checker. It takes and releases a lock, since only that shows that the ACLs let us.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	return inTime(ctx, driver.ErrUnavailable, func() ([]driver.Notice, error) { return b.check(ctx) })
}

func (b *Backend) check(ctx context.Context) ([]driver.Notice, error) {
	var id [16]byte
	_, _ = rand.Read(id[:])
	req := driver.Request{Name: checkName, Owner: fmt.Sprintf("%x:check", id), TTL: b.o.TTL, Queue: true}
	c, err := b.enter(ctx, req)
	if err == nil {
		if _, _, err = c.place(ctx); err != nil {
			err = c.failed(err)
		} else {
			err = c.withdraw()
		}
	}
	switch {
	case oneOf(err, driver.ErrUnknown): // no lock but this one is concerned
		return nil, unavailable(err)
	case err != nil:
		return nil, err
	}
	var notices []driver.Notice
	if b.o.TickTime == 0 {
		notices = append(notices, driver.Notice{ID: "tick-time", Unknown: true,
			Text:   fmt.Sprintf("The servers do not tell their tickTime; it is taken to be %v.", b.tick),
			Remedy: "If it is longer, which a minSessionTimeout below two ticks may hide, set the option TickTime, in a URL tick_time."})
	}
	if b.o.Log == nil {
		notices = append(notices, driver.Notice{ID: "session-timeout", Unknown: true,
			Text:   fmt.Sprintf("It is not known which session timeout the server granted to this connection; it is taken to be %v.", b.o.TTL),
			Remedy: "Give the option Log, which learns it."})
	}
	granted := b.timeout()
	if granted < b.o.TTL {
		notices = append(notices, driver.Notice{ID: "session-timeout",
			Text:   fmt.Sprintf("The server grants sessions of at most %v, and %v was requested. A holder that is silent for longer than that loses its locks.", granted, b.o.TTL),
			Remedy: "Raise the servers' maxSessionTimeout, or request a shorter TTL."})
	}
	members, _, err := b.get(membersPath)
	switch {
	case err == nil:
		notices = append(notices, b.judgeMembers(members)...)
	case oneOf(err, driver.ErrRefused, zk.ErrNoNode):
		notices = append(notices, driver.Notice{ID: "quorum", Unknown: true,
			Text:   "The server does not let this user read " + membersPath + ", so it is not known whether a server may fail.",
			Remedy: "Check that the ensemble has three or five servers."})
	default:
		return nil, withoutEffect(err)
	}
	if b.ensemble != nil && b.ensemble.clear {
		notices = append(notices, notice.InTheClear(b.ensemble.addresses...)...)
	}
	return notices, nil
}

// membersPath is the node in which an ensemble lists its members. A server that stands alone has it too, empty.
const membersPath = "/zookeeper/config"

// judgeMembers reads that list.
func (b *Backend) judgeMembers(text string) []driver.Notice {
	voters := 0
	for one := range strings.Lines(text) {
		if strings.HasPrefix(one, "server.") && !strings.Contains(one, ":observer") {
			voters++
		}
	}
	voters = max(voters, 1)
	if few := notice.Quorum(voters); few != nil || b.ensemble == nil || len(b.ensemble.addresses) > 1 {
		return few
	}
	return []driver.Notice{{ID: "endpoints",
		Text:   fmt.Sprintf("This client knows one of %d servers, and loses its locks when that one is down.", voters),
		Remedy: "Name the others too."}}
}
