package zookeeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// checkName is the lock that Check takes.
const checkName = "lockport-check"

// Check implements driver.Checker. It takes and releases a lock, since only that shows that the ACLs let us.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	var id [16]byte
	_, _ = rand.Read(id[:])
	req := driver.Request{Name: checkName, Owner: fmt.Sprintf("%x:check", id), TTL: b.o.TTL, Queue: true}
	c, err := b.enter(ctx, req)
	if err == nil {
		if _, err = c.place(ctx); err != nil {
			err = c.failed(ctx, err)
		} else {
			err = c.withdraw(ctx)
		}
	}
	switch {
	case oneOf(err, driver.ErrUnknown): // no lock but this one is concerned
		return nil, unavailable(context.Cause(ctx))
	case err != nil:
		return nil, err
	}
	notices := b.checkTick(ctx)
	l, err := b.live(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	granted := l.granted
	l.mu.Unlock()
	if granted < b.o.TTL {
		notices = append(notices, driver.Notice{ID: "session-timeout",
			Text:   fmt.Sprintf("The server grants sessions of at most %v, and %v was requested. A holder that is silent for longer than that loses its locks.", granted, b.o.TTL),
			Remedy: "Raise the servers' maxSessionTimeout, or request a shorter TTL."})
	}
	members, err := l.get(ctx, membersPath)
	switch {
	case err == nil:
		notices = append(notices, judgeMembers(members.data, b.servers)...)
	case refused(err) || ctx.Err() == nil && !connectionLost(err) && !oneOf(err, driver.ErrUnavailable):
		notices = append(notices, driver.Notice{ID: "quorum", Unknown: true,
			Text:   "The server does not let this user read " + membersPath + ", so it is not known whether a server may fail.",
			Remedy: "Check that the ensemble has three or five servers."})
	default:
		return nil, unavailable(err)
	}
	if b.clear {
		notices = append(notices, notice.InTheClear(b.servers...)...)
	}
	return notices, nil
}

// membersPath is the node in which an ensemble lists its members. A server that stands alone has it too, empty.
const membersPath = "/zookeeper/config"

// judgeMembers reads that list.
func judgeMembers(text string, known []string) []driver.Notice {
	voters := 0
	for one := range strings.Lines(text) {
		if strings.HasPrefix(one, "server.") && !strings.Contains(one, ":observer") {
			voters++
		}
	}
	voters = max(voters, 1)
	switch {
	case voters < 3:
		return []driver.Notice{{ID: "quorum",
			Text:   fmt.Sprintf("The ensemble has %d voting server(s): no lock can be acquired or kept while one is down.", voters),
			Remedy: "Run three or five servers."}}
	case len(known) < 2:
		return []driver.Notice{{ID: "endpoints",
			Text:   fmt.Sprintf("This client knows one of %d servers, and loses its locks when that one is down.", voters),
			Remedy: "Name the others too."}}
	}
	return nil
}

// checkTick compares the tick that validity goes by with that of a server that lets us see its configuration.
func (b *Backend) checkTick(ctx context.Context) []driver.Notice {
	used, actual := b.tickTime(), b.configuredTick(ctx)
	switch {
	case actual == 0:
		return []driver.Notice{{
			ID: "tick-time", Unknown: true,
			Text: fmt.Sprintf("The server does not tell its tickTime (conf is not in its 4lw.commands.whitelist); it is taken to be %v, "+
				"half of its smallest session timeout.", used),
			Remedy: "If its minSessionTimeout is configured below two ticks, set the option TickTime, in a URL tick_time.",
		}}
	case actual > used:
		return []driver.Notice{{
			ID: "tick-time",
			Text: fmt.Sprintf("The server's tickTime is %v and is taken to be %v, so that a holder that is cut off may believe in its lock "+
				"for too long.", actual, used),
			Remedy: fmt.Sprintf("Set the option TickTime, in a URL tick_time=%v.", actual),
		}}
	}
	return nil
}

// configuredTick is the server's tickTime, or 0 if it does not tell.
func (b *Backend) configuredTick(ctx context.Context) time.Duration {
	ms, _ := strconv.Atoi(line(b.fourLetter(ctx, b.servers[0], "conf"), "tickTime="))
	return time.Duration(ms) * time.Millisecond
}
