package zookeeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"regexp"
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
	if err != nil {
		return nil, err
	}
	if _, err := c.place(ctx); err != nil {
		return nil, c.failed(ctx, err)
	}
	if err := c.withdraw(ctx); err != nil {
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
			Text: fmt.Sprintf("the server does not tell its tickTime (conf is not in its 4lw.commands.whitelist); it is taken to be %v, "+
				"half of its smallest session timeout", used),
			Remedy: "if its minSessionTimeout is configured below two ticks, set the option TickTime, in a URL tick_time",
		}}
	case actual > used:
		return []driver.Notice{{
			ID: "tick-time",
			Text: fmt.Sprintf("the server's tickTime is %v and is taken to be %v, so that a holder that is cut off may believe in its lock "+
				"for too long", actual, used),
			Remedy: fmt.Sprintf("set the option TickTime, in a URL tick_time=%v", actual),
		}}
	}
	return nil
}

var tickLine = regexp.MustCompile(`(?m)^tickTime=([0-9]+)$`)

// configuredTick is the server's tickTime, or 0 if it does not tell.
func (b *Backend) configuredTick(ctx context.Context) time.Duration {
	const words, most = "conf", 64 << 10
	conn, err := b.dial(ctx, b.servers[0], time.Second)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, words); err != nil {
		return 0
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, most))
	m := tickLine.FindSubmatch(answer)
	if m == nil {
		return 0
	}
	ms, _ := strconv.Atoi(string(m[1]))
	return time.Duration(ms) * time.Millisecond
}
