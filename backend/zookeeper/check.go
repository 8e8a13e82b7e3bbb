package zookeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// checkName is the lock that Check takes. A user's own ends in the user name: the first user's node would keep out the others.
const checkName = "lockport-check"

// Check implements driver.Checker. It takes and releases a lock: only that proves that the ACLs allow it.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	return inTime(ctx, driver.ErrUnavailable, func() ([]driver.Notice, error) { return b.check(ctx) })
}

func (b *Backend) check(ctx context.Context) ([]driver.Notice, error) {
	name := checkName
	if b.o.Username != "" {
		name += "-" + b.o.Username
	}
	req := driver.Request{Name: name, Owner: rand.Text() + ":check", TTL: b.o.TTL}
	lease, err := b.TryAcquire(ctx, req)
	if err == nil {
		err = lease.Release(ctx)
	}
	switch {
	case err == nil, oneOf(err, driver.ErrHeld, driver.ErrLost): // the node is deleted
	case errors.Is(err, driver.ErrUnknown), lease != nil && errors.Is(err, driver.ErrUnavailable): // it may be left
		go b.abandonCheck(req)
		return nil, unavailable(err)
	default:
		return nil, err
	}
	var notices []driver.Notice
	if b.o.TickTime == 0 {
		notices = append(notices, driver.Notice{ID: "tick-time", Unknown: true,
			Text:   fmt.Sprintf("The servers do not report their tickTime; %v is assumed.", b.tick),
			Remedy: "If it is longer, which a minSessionTimeout below two ticks may hide, set the option TickTime (in a URL: tick_time)."})
	}
	if b.o.Log == nil {
		notices = append(notices, driver.Notice{ID: "session-timeout", Unknown: true,
			Text:   fmt.Sprintf("The session timeout that the server granted to this connection is unknown; %v is assumed.", b.o.TTL),
			Remedy: "Set the option Log, which learns it."})
	}
	granted := b.timeout()
	if granted < b.o.TTL {
		notices = append(notices, driver.Notice{ID: "session-timeout",
			Text:   fmt.Sprintf("The server granted the session timeout %v, which is shorter than the TTL %v. A holder that is silent for longer loses its locks.", granted, b.o.TTL),
			Remedy: "Raise the servers' maxSessionTimeout, or what your zk.Connect requests, or use a shorter TTL."})
	}
	if b.o.TTL < 5*b.tick {
		notices = append(notices, driver.Notice{ID: "short-ttl",
			Text:   fmt.Sprintf("The TTL %v is less than five ticks of %v. A renewal then proves little: work may be ended although the server answers.", b.o.TTL, b.tick),
			Remedy: "Use a longer TTL, shorten the servers' tickTime, or set the option TickTime (in a URL: tick_time) if minSessionTimeout is above two ticks."})
	}
	members, _, err := b.get(membersPath)
	switch {
	case err == nil:
		notices = append(notices, b.memberNotices(members)...)
	case oneOf(err, driver.ErrRefused, zk.ErrNoNode):
		notices = append(notices, driver.Notice{ID: "quorum", Unknown: true,
			Text:   "The server does not let this user read " + membersPath + ", so it is unknown whether a server may fail.",
			Remedy: "Check that the ensemble has three or five servers."})
	default:
		return nil, withoutEffect(err)
	}
	if b.plaintext {
		notices = append(notices, notice.InTheClear(b.addresses...)...)
	}
	return notices, nil
}

// abandonCheck abandons the claim of a check. Nobody else does: it would last as long as the session.
func (b *Backend) abandonCheck(req driver.Request) {
	for {
		if err := b.abandon(context.Background(), req); err == nil || errors.Is(err, driver.ErrRefused) {
			return
		}
		select {
		case <-time.After(time.Second):
		case <-b.ctx.Done():
			return
		}
	}
}

// membersPath is the node that lists an ensemble's members. On a standalone server it is empty.
const membersPath = "/zookeeper/config"

// memberNotices reports risks in that list.
func (b *Backend) memberNotices(text string) []driver.Notice {
	voters := 0
	for one := range strings.Lines(text) {
		if strings.HasPrefix(one, "server.") && !strings.Contains(one, ":observer") {
			voters++
		}
	}
	return notice.Members(max(voters, 1), len(b.addresses))
}
