package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// quorums are locks in five servers that go on although the time has run out.
var quorums = []Exhibit{
	{
		Name: "believes-from-the-last-answer", Hazard: "H10", Article: "002, 004",
		Is: "the five are asked one after the other, with a timeout above the TTL, and the lock is believed for a TTL from then on: " +
			"one that hangs eats the validity, and the others have forgotten the lock when it is granted",
		CaughtBy: []string{"exclusion/two-backends", "contract/held"},
		Sees:     []string{"yet another claim was granted", "a second claim was not ErrHeld but: none"},
		many: func(q *quorum) {
			q.patience = beyondTheTTL
			q.valid = func(_ time.Time, ttl time.Duration) (time.Time, bool) { return time.Now().Add(ttl), true }
		},
	},
	{
		Name: "never-looks-at-what-is-left", Hazard: "H10", Article: "004",
		Is:       "the same, where the validity counts from the first request, and nobody looks whether anything is left of it",
		CaughtBy: []string{"contract/grant"}, Sees: []string{"before TryAcquire returned"},
		many: func(q *quorum) {
			q.patience = beyondTheTTL
			q.valid = func(sent time.Time, ttl time.Duration) (time.Time, bool) { return sent.Add(ttl), true }
		},
	},
}

// beyondTheTTL is how long each server is waited for, as by a client with its default timeouts: one that hangs eats it all.
func beyondTheTTL(ttl time.Duration) time.Duration { return ttl + ttl/20 }

// fromTheFirst is the validity of what was first asked for at sent, with an allowance for clocks, and whether anything is left.
func fromTheFirst(sent time.Time, ttl time.Duration) (time.Time, bool) {
	until := sent.Add(ttl - ttl/100 - 2*time.Millisecond)
	return until, time.Now().Before(until)
}

// quorum is a lock in several servers: who has most of them has it. They are asked one after the other.
type quorum struct {
	nodes    []*lock
	patience func(ttl time.Duration) time.Duration                                // how long one of them is waited for
	valid    func(sent time.Time, ttl time.Duration) (until time.Time, left bool) // of a claim that was first sent then
}

// ask asks each node, and counts who said yes, no, or nothing.
func (q *quorum) ask(ctx context.Context, ttl time.Duration, of func(context.Context, *lock) (bool, error)) (yes, no int, err error) {
	for _, node := range q.nodes {
		short, cancel := context.WithTimeout(ctx, q.patience(ttl))
		said, failure := of(short, node)
		cancel()
		switch {
		case failure != nil:
			err = errors.Join(err, failure)
		case said:
			yes++
		default:
			no++
		}
	}
	return yes, no, err
}

func (q *quorum) most(n int) bool { return n > len(q.nodes)/2 }

// TryAcquire implements driver.Backend.
func (q *quorum) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL < q.Capabilities().MinTTL {
		return nil, fmt.Errorf("%w: the TTL %v is too short", driver.ErrRefused, req.TTL)
	}
	c := q.nodes[0].claim(req)
	sent := time.Now()
	yes, no, err := q.ask(ctx, c.ttl, func(ctx context.Context, node *lock) (bool, error) { return node.take(ctx, c) })
	until, left := q.valid(sent, req.TTL)
	if q.most(yes) && left {
		return &majority{q: q, claim: c, grant: driver.Grant{Until: until}}, nil
	}
	_, _, _ = q.give(ctx, c) // on all of them: one may have it without having said so
	switch {
	case q.most(yes):
		return nil, unknown(ctx, fmt.Errorf("it took %v, which is longer than the lock would have lasted", time.Since(sent)))
	case no >= len(q.nodes)-len(q.nodes)/2:
		return nil, &driver.HeldError{}
	}
	return nil, unknown(ctx, errors.Join(fmt.Errorf("%d of %d servers granted it", yes, len(q.nodes)), err))
}

// give releases c on every node.
func (q *quorum) give(ctx context.Context, c claim) (yes, no int, err error) {
	return q.ask(ctx, c.ttl, func(ctx context.Context, node *lock) (bool, error) { return node.give(ctx, c) })
}

// Abandon implements driver.Backend. It is certain when most nodes are.
func (q *quorum) Abandon(ctx context.Context, req driver.Request) error {
	done, _, err := q.ask(ctx, req.TTL, func(ctx context.Context, node *lock) (bool, error) { return true, node.Abandon(ctx, req) })
	if q.most(done) {
		return nil
	}
	return unknown(ctx, err)
}

// Capabilities implements driver.Backend.
func (q *quorum) Capabilities() driver.Capabilities { return q.nodes[0].Capabilities() }

// Close implements driver.Backend.
func (q *quorum) Close() (err error) {
	for _, node := range q.nodes {
		err = errors.Join(err, node.Close())
	}
	return err
}

// majority is a claim that most nodes granted.
type majority struct {
	q     *quorum
	claim claim
	grant driver.Grant
	given bool // most nodes still had it when it was released
}

// Grant implements driver.Lease.
func (l *majority) Grant() driver.Grant { return l.grant }

// Renew implements driver.Lease.
func (l *majority) Renew(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	yes, no, err := l.q.ask(ctx, l.claim.ttl, func(ctx context.Context, node *lock) (bool, error) { return node.prolong(ctx, l.claim) })
	until, left := l.q.valid(sent, l.claim.ttl)
	switch {
	case l.q.most(yes) && left:
		return until, nil
	case l.q.most(no):
		return time.Time{}, errLost
	}
	return time.Time{}, unknown(ctx, errors.Join(fmt.Errorf("%d of %d servers renewed it", yes, len(l.q.nodes)), err))
}

// Release implements driver.Lease.
func (l *majority) Release(ctx context.Context) error {
	yes, no, err := l.q.give(ctx, l.claim)
	l.given = l.given || l.q.most(yes)
	switch {
	case l.given:
		return nil
	case l.q.most(no):
		return errLost
	}
	return unknown(ctx, err)
}
