package libraries

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// redlockTTL is less than go-redis waits for a reply, and enough for five servers on one machine.
const redlockTTL = 2500 * time.Millisecond

// redlock is a lock of which a majority of Redis servers must have each claim.
type redlock struct {
	lock
	nodes  []*redisLock
	quorum int
}

func newRedlock(target string, options func(addr string) *goredis.Options) *redlock {
	l := new(redlock)
	for _, addr := range strings.Split(target, ",") {
		l.nodes = append(l.nodes, newRedis(options(addr)))
	}
	l.quorum = len(l.nodes)/2 + 1
	l.caps = driver.Capabilities{Backend: "redlock", Ends: driver.EndsTTL, TTLGrain: time.Millisecond}
	l.take, l.renew, l.release, l.abandon = l.vote, l.prolong, l.free, l.undo
	l.close = func() (err error) {
		for _, n := range l.nodes {
			err = errors.Join(err, n.Close())
		}
		return err
	}
	return l
}

// onRedlock opens the lock with what spoil changes.
func onRedlock(spoil func(*redlock)) opener {
	return func(_ context.Context, target string) (driver.Backend, error) {
		l := newRedlock(target, redisOptions)
		spoil(l)
		return l, nil
	}
}

// votes are what the nodes answered: a number above 0, 0, nothing.
type votes struct {
	yes, no, silent []*redisLock
}

// ask asks all nodes at once, waits for each for a quarter of the TTL, and returns as soon as a majority said yes.
func (l *redlock) ask(ctx context.Context, script string, req driver.Request) votes {
	type vote struct {
		node *redisLock
		n    int64
		err  error
	}
	answers := make(chan vote, len(l.nodes))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), req.TTL/4) // who is late is still asked
	var asked sync.WaitGroup
	for _, node := range l.nodes {
		asked.Go(func() {
			n, err := node.eval(ctx, script, req)
			answers <- vote{node, n, err}
		})
	}
	go func() { asked.Wait(); cancel() }()
	var v votes
	for range l.nodes {
		switch answer := <-answers; {
		case answer.err != nil:
			v.silent = append(v.silent, answer.node)
		case answer.n == 0:
			v.no = append(v.no, answer.node)
		default:
			v.yes = append(v.yes, answer.node)
		}
		if len(v.yes) >= l.quorum {
			break
		}
	}
	return v
}

var errNoMajority = errors.New("no majority of the nodes answered in time")

func (l *redlock) vote(ctx context.Context, req driver.Request) (*claim, error) {
	sent := time.Now()
	v := l.ask(ctx, takeScript, req)
	until := sent.Add(req.TTL - drift(req.TTL))
	if len(v.yes) >= l.quorum && time.Now().Before(until) {
		return &claim{grant: driver.Grant{Until: until}}, nil
	}
	if err := l.undo(ctx, req); err != nil || len(v.silent) >= l.quorum {
		return nil, unknown(errNoMajority)
	}
	return nil, driver.ErrHeld
}

func (l *redlock) prolong(ctx context.Context, c *claim) (time.Time, error) {
	sent := time.Now()
	switch v := l.ask(ctx, renewScript, c.req); {
	case len(v.yes) >= l.quorum:
		return sent.Add(c.req.TTL - drift(c.req.TTL)), nil
	case len(v.no) >= l.quorum:
		return time.Time{}, driver.ErrLost
	}
	return time.Time{}, unknown(errNoMajority)
}

func (l *redlock) free(ctx context.Context, c *claim) error {
	switch v := l.ask(ctx, freeScript, c.req); {
	case len(v.yes) >= l.quorum:
		return nil
	case len(v.no) >= l.quorum:
		return driver.ErrLost
	}
	return unknown(errNoMajority)
}

// undo removes a claim from all nodes, the silent ones too, of which a minority may stay silent.
func (l *redlock) undo(ctx context.Context, req driver.Request) error {
	if v := l.ask(ctx, freeScript, req); len(v.silent) >= l.quorum {
		return unknown(errNoMajority)
	}
	return nil
}

// redlockBugs are locks on a majority of five Redis servers.
var redlockBugs = soundly(onRedlock(func(*redlock) {}), []Exhibit{
	{
		Name: "waits-for-the-hung-node", Library: "redsync", Reference: "https://github.com/go-redsync/redsync/issues/140", Server: HungNode,
		Is:       "every node is waited for, and for as long as the client library waits: one that hangs uses up the validity of the others",
		CaughtBy: []string{"contract/release"}, Sees: "nobody has the name, yet a claim was not granted", TTL: redlockTTL,
		broken: func(_ context.Context, target string) (driver.Backend, error) {
			l := newRedlock(target, func(addr string) *goredis.Options {
				o := redisOptions(addr)
				o.ContextTimeoutEnabled = false // the library's default
				return o
			})
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				sent, yes := time.Now(), 0
				for _, node := range l.nodes {
					if n, err := node.eval(ctx, takeScript, req); err == nil && n > 0 {
						yes++
					}
				}
				until := sent.Add(req.TTL - drift(req.TTL))
				if yes >= l.quorum && time.Now().Before(until) {
					return &claim{grant: driver.Grant{Until: until}}, nil
				}
				for _, node := range l.nodes {
					_ = node.abandon(ctx, req)
				}
				return nil, unavailable(errNoMajority)
			}
			return l, nil
		},
	},
	{
		Name: "unlocks-only-what-answered", Library: "RedissonRedLock 3.7.5", Reference: "https://github.com/redisson/redisson/issues/1606", Server: Redlock,
		Is:       "a claim that failed is taken back on the nodes that granted it; those whose reply was lost keep it",
		CaughtBy: []string{"unknown/acquire-reply-lost"}, Sees: "the claim was carried out and its reply lost, yet it was", TTL: redlockTTL,
		broken: onRedlock(func(l *redlock) {
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				sent := time.Now()
				v := l.ask(ctx, takeScript, req)
				if len(v.yes) >= l.quorum {
					return &claim{grant: driver.Grant{Until: sent.Add(req.TTL - drift(req.TTL))}}, nil
				}
				for _, node := range v.yes {
					_ = node.abandon(ctx, req)
				}
				return nil, unavailable(errNoMajority)
			}
		}),
	},
})
