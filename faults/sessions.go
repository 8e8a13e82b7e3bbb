package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/play"
)

// Why it is so, in several environments.
const (
	whyKilled = "the system closes the connections, by which holders know in milliseconds; the server is away for half a second or more"
	whyClosed = "the server frees the locks when the connection is closed towards it, and the holder knows when it is closed towards the holder: which of them is first, " +
		"and by how many milliseconds, is chance; the token protects"
	whyTooMany = "who has a session goes on; others wait until there is room for one"
)

// sessionCells are the faults of one server whose sessions hold the locks. ended is what its operators call a session that they have ended.
func sessionCells(ended string) []play.Cell {
	return []play.Cell{
		{
			Fault: "server-killed", Outcome: play.Unavailable, Recovery: backRecovery, Inject: killed(granting), Why: whyKilled,
		},
		{
			Fault: "server-restarted", Outcome: play.UnsafeFenced, Recovery: backRecovery, Gone: true, Argued: true, Inject: restarted(granting),
			Why: "the server ends all sessions, by which holders know in milliseconds, and takes longer to start again; but it waits for none that is slow to know",
		},
		{
			Fault: "server-restarted-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(restart(granting)), Tries: 10,
			Why: "a server that starts again knows of no locks and grants at once; a holder whose link is silent meanwhile believes until its deadline; the token protects",
		},
		{
			Fault: "server-paused-briefly", Outcome: play.Safe, Inject: pausedBriefly(granting),
			Why: "a server that does not run grants nothing, and when it goes on it ends only sessions that have been silent for a TTL, as their holders know",
		},
		{
			Fault: "server-paused", Outcome: play.Unavailable, Recovery: backRecovery, Inject: pausedLong(granting),
			Why: "holders have heard nothing for a TTL, and know that their locks may be lost",
		},
		{
			Fault: ended, Outcome: play.UnsafeFenced, Gone: true, Argued: true, Script: removedOpenly(remove),
			Why: "the server frees the locks of a session that it ends at once; the holder's socket tells it in milliseconds, in which somebody else may have the lock already",
		},
		{
			Fault: ended + "-behind-silence", Outcome: play.UnsafeFenced, Gone: true, Script: endedBehindSilence(remove),
			Why: "the server frees the locks of a session that it ends at once; a holder whose link is silent believes until its deadline; the token protects",
		},
	}
}

// closedBothWays are those of the common faults in which a connection of a holder is closed: for locks that belong to a session the server, too, sees that.
// By a script that is shown where the server closes it: see endedBehindSilence.
var closedBothWays = []play.Cell{
	{Fault: "holder-cut", Outcome: play.UnsafeFenced, Gone: true, Argued: true, Why: whyClosed},
	{Fault: "holder-silent", Outcome: play.UnsafeFenced, Gone: true, Argued: true,
		Why: "as long as the network is silent a holder ends its hold before the server does; where the silence ends before that, with the connection closed, it is as when it is cut"},
	{Fault: "replies-lost", Outcome: play.UnsafeFenced, Gone: true, Argued: true, Why: whyClosed},
}

// endedBehindSilence has the link of a holder fall silent, ends its claim at the server by end, and has somebody else acquire the lock: the
// holder believes until its deadline, or until the link says what has happened.
func endedBehindSilence(end func(ctx context.Context, p *play.Phase, name string) error) func(ctx context.Context, p *play.Phase) error {
	return func(ctx context.Context, p *play.Phase) error {
		older, newer, err := p.Two(ctx)
		if err != nil {
			return err
		}
		name := p.Name()
		a, err := older.Acquire(ctx, name, p.Environment.TTL)
		if err != nil {
			return err
		}
		for _, link := range older.Endpoint.Links {
			link.Freeze()
			defer link.DropHeld()
		}
		p.Injected()
		if err := end(ctx, p, name); err != nil {
			return err
		}
		b, err := newer.Acquire(ctx, name, 5*p.Environment.TTL)
		if err != nil {
			return err
		}
		return p.Both(ctx, a, b)
	}
}

// shorterTimeout has an administrator let sessions end after half a TTL of silence, by set, which is for sessions that are begun later, and a holder's link
// be silent for longer than that, but less than a TTL: nobody may acquire the lock meanwhile.
func shorterTimeout(set func(ctx context.Context, p *play.Phase, d time.Duration) error) func(ctx context.Context, p *play.Phase) error {
	return func(ctx context.Context, p *play.Phase) error {
		if err := set(ctx, p, p.Environment.TTL/2); err != nil {
			return err
		}
		holder, other, err := p.Two(ctx)
		if err != nil {
			return err
		}
		l, err := holder.Acquire(ctx, p.Name(), p.Environment.TTL)
		if err != nil {
			return err
		}
		p.Injected()
		for _, link := range holder.Endpoint.Links {
			link.Freeze()
			defer link.Restore()
		}
		if m, err := other.Acquire(ctx, p.Name(), p.Environment.TTL*7/10); err == nil {
			return p.Both(ctx, l, m)
		}
		holder.Endpoint.Links.Each((*faultproxy.Proxy).Restore)
		p.Healed()
		return l.Release(ctx)
	}
}

// useUpConnections opens connections until the server lets nobody in any more, which connect tells by returning nothing, and takes those that get free, for
// a while. Then it closes them all.
func useUpConnections(ctx context.Context, p *play.Phase, connect func(context.Context) (closeIt func(), err error)) error {
	var taken []func()
	end := func() {
		for _, closeIt := range taken {
			closeIt()
		}
		taken = nil
	}
	defer func() { end() }()
	p.Injected()
	until := time.Now().Add(p.Between(p.Environment.TTL/2, p.Environment.TTL))
	for full := false; !full || time.Now().Before(until); {
		closeIt, err := connect(ctx)
		if err != nil {
			return fmt.Errorf("using up the connections: %w", err)
		}
		if closeIt != nil {
			taken = append(taken, closeIt)
			continue
		}
		full = true
		if err := p.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	end()
	p.Healed()
	return nil
}
