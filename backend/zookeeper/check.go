package zookeeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/lockport/lockport/driver"
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
	return b.checkTick(ctx), nil
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
	answer, _, err := b.fourLetter(ctx, b.servers[0], "conf")
	if err != nil {
		return 0
	}
	ms, _ := strconv.Atoi(line(answer, "tickTime="))
	return time.Duration(ms) * time.Millisecond
}
