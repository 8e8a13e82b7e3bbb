package redlock

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// Any minority may be dead or hung: locks are taken, waited for, renewed and released as if nothing were.
func TestAMinorityIsAway(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"dead", "hung"} {
		for away := 1; away <= 2; away++ {
			t.Run(fmt.Sprint(fault, away), func(t *testing.T) {
				t.Parallel()
				x := plainNodes(t, 5)
				a, b := newPeer(t, x.url(), "a"), newPeer(t, x.url(), "b")
				held := a.takes(a.request("held"))
				require.Eventually(t, func() bool { return x.having(t, key("held")) == 5 }, soon, time.Millisecond)
				which := []int{1, 3}[:away]
				if fault == "dead" {
					x.kill(t, which...)
				} else {
					x.freeze(t, which...)
				}
				for range 3 {
					_, err := a.renews(held)
					require.NoError(t, err)
					lease := a.takes(a.request("x"))
					req := b.request("x")
					b.waits(req)
					woken := b.notified(req)
					a.frees(lease)
					eventually(t, woken)
					b.frees(b.takesSoon(req))
				}
				b.waits(b.request("held"))
				a.frees(held)
				fresh := newPeer(t, x.url(), "fresh") // which has never seen the nodes well
				fresh.frees(fresh.takes(fresh.request("y")))
				x.empty(t, "x")
				x.empty(t, "y")
				notices, err := fresh.Check(t.Context())
				require.NoError(t, err)
				require.Contains(t, ids(notices), "nodes-away")
			})
		}
	}
}

// Without a majority nothing can be taken, which is said in one line and, once it is known, at once.
func TestAMajorityIsAway(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"dead", "hung"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			x := plainNodes(t, 5)
			a := newPeer(t, x.url(), "a")
			a.frees(a.takes(a.request("before")))
			if fault == "dead" {
				x.kill(t, 0, 2, 4)
				a.knowsAway(0, 2, 4)
			} else {
				for _, n := range a.nodes {
					n.settle(t.Context()) // a claim behind a release that hangs is certainly not sent
				}
				x.freeze(t, 0, 2, 4)
			}
			req := a.request("x")
			_, err := a.try(req)
			if fault == "hung" {
				require.ErrorIs(t, err, driver.ErrUnknown, "three may have granted it")
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				require.Error(t, a.Abandon(ctx, req), "nothing is certain without a majority")
				require.Eventually(t, func() bool {
					req = a.request("x")
					_, err = a.try(req)
					return !isUnknown(err)
				}, soon, 10*time.Millisecond)
			}
			require.ErrorIs(t, err, driver.ErrUnavailable)
			require.ErrorContains(t, err, "3 of 5 nodes do not serve, and 3 are needed: 127.0.0.1:")
			require.NotContains(t, err.Error(), "\n")
			_, err = a.Inspect(t.Context(), "x")
			require.ErrorIs(t, err, driver.ErrUnavailable)
			_, err = a.Check(t.Context())
			require.ErrorIs(t, err, driver.ErrUnavailable)
			x.empty(t, "x") // what the two granted was given back
			if fault == "hung" {
				x.thaw(t, 0, 2, 4)
				require.Eventually(t, func() bool { return a.Abandon(t.Context(), req) == nil }, soon, 10*time.Millisecond)
				require.Eventually(t, func() bool {
					lease, err := a.try(a.request("y"))
					if err == nil {
						a.frees(lease)
					}
					return err == nil
				}, soon, 10*time.Millisecond)
			}
		})
	}
}

// A node that lost its data gets the lock again at the next renewal; one that lost the majority is lost, and nobody brings it back.
func TestNodesRestartEmpty(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 5)
	a, b := newPeer(t, x.url(), "a"), newPeer(t, x.url(), "b")
	lease := a.takes(a.request("x"))
	require.Eventually(t, func() bool { return x.having(t, key("x")) == 5 }, soon, time.Millisecond)
	x.restartEmpty(t, 0, 3)
	require.Equal(t, 3, x.having(t, key("x")))
	require.Eventually(t, func() bool {
		_, err := a.renews(lease)
		require.NoError(t, err)
		return x.having(t, key("x")) == 5
	}, soon, 10*time.Millisecond, "taken again")
	b.waits(b.request("x"))
	x.restartEmpty(t, 1, 2)
	b.waits(b.request("x"))

	x.restartEmpty(t, 4) // three of five before the next renewal
	require.Eventually(t, func() bool {
		_, err := a.renews(lease)
		return isLost(err)
	}, soon, 10*time.Millisecond)
	require.ErrorIs(t, a.releases(lease), driver.ErrLost)
	require.Eventually(t, func() bool { return x.having(t, key("x")) == 0 }, 2*soon, 10*time.Millisecond)
}

// A request that takes a lock again and arrives after the validity has ended, or after the claim was abandoned, does nothing.
func TestNothingIsRetakenTooLate(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 3)
	a := newPeer(t, x.url(), "a")
	lease := a.takes(a.request("x")).(*claim)
	require.Eventually(t, func() bool { return x.having(t, key("x")) == 3 }, soon, time.Millisecond)
	seconds, err := strconv.ParseInt(do(t, x.servers[0], "TIME").([]any)[0].(string), 10, 64)
	require.NoError(t, err)
	now := time.Now()
	gone := func() {
		do(t, x.servers[0], "DEL", key("x"))
	}
	retake := func() {
		lease.retakeAt(0, 1000*seconds, now)
	}
	gone()
	retake()
	require.Equal(t, 3, x.having(t, key("x")), "in time")
	gone()
	until := lease.until
	lease.until = time.Now().Add(-time.Second) // it has ended
	retake()
	require.Equal(t, 2, x.having(t, key("x")))
	lease.until = until
	do(t, x.servers[0], "SET", key("x"), "somebody")
	retake()
	require.Equal(t, "somebody", do(t, x.servers[0], "GET", key("x")))
	gone()
	a.abandonedElsewhere(lease)
	retake()
	require.Equal(t, 2, x.having(t, key("x")), "the claim was abandoned")
	other := a.takes(a.request("y")).(*claim)
	a.frees(other)
	x.empty(t, "y")
	other.retakeAt(0, 1000*seconds, now)
	require.Zero(t, x.having(t, key("y")), "the claim was released")
}

// abandonedElsewhere has all nodes remember that the claim of lease was abandoned, and keep its keys.
func (p *peer) abandonedElsewhere(lease *claim) {
	for i := range p.nodes {
		p.asksNode(i, redisscript.Abandon, []string{"elsewhere", lease.keys[1]}, lease.value, "60000")
	}
}

// A holder that is cut off from the majority knows that its hold has ended before anybody else can have the lock, every time.
func TestPartitionedHolderIsToldBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 5)
	const ttl, rounds = 800 * time.Millisecond, 8
	for round := range rounds {
		backend, err := openURL(t.Context(), x.proxied())
		require.NoError(t, err)
		c, err := lockport.New(backend, lockport.TTL(ttl), lockport.Logger(nil))
		require.NoError(t, err)
		other := newPeer(t, x.url(), "other")
		name := fmt.Sprint("x", round)
		l, err := c.Acquire(t.Context(), name)
		require.NoError(t, err)
		time.Sleep(time.Duration(round) * ttl / rounds) // at any moment of the period of renewal
		for i := range 3 + round%3 {
			x.proxies[(round+i)%5].Freeze()
		}
		req := other.request(name)
		req.TTL, req.Queue = ttl, false
		var granted time.Time
		var next driver.Lease
		require.Eventually(t, func() bool {
			granted = time.Now()
			next, err = other.try(req)
			return err == nil
		}, soon, time.Millisecond)
		require.False(t, l.Valid(), "somebody else has it")
		require.ErrorIs(t, l.Err(), lockport.ErrSilence)
		select {
		case <-l.Lost():
		case <-time.After(soon):
			require.Fail(t, "not told")
		}
		_ = granted
		other.frees(next)
		for _, p := range x.proxies {
			p.DropHeld()
		}
		require.NoError(t, c.Close())
	}
}

// A node that hangs for long holds up neither claims nor memory.
func TestHungNodePilesNothingUp(t *testing.T) {
	x := plainNodes(t, 5)
	a := newPeer(t, x.proxied(), "a")
	a.frees(a.takes(a.request("x")))
	x.empty(t, "x")
	x.proxies[2].Freeze()
	before := runtime.NumGoroutine()
	for range 3000 {
		req := a.request("x")
		req.TTL = 2 * time.Second // the claim that was under way when its connection was given up may keep its key for so long
		a.frees(a.takes(req))
	}
	require.Less(t, runtime.NumGoroutine(), before+2*maxOwed+100, "a claim and its release for each answer that is owed, and nothing for each of 3000")
	x.proxies[2].Restore()
	x.empty(t, "x")
	require.Eventually(t, func() bool {
		lease := a.takes(a.request("y"))
		defer a.frees(lease)
		has := func() bool { return do(t, x.servers[2], "EXISTS", key("y")) == int64(1) }
		for range 20 {
			if has() {
				return true
			}
		}
		return false
	}, soon, 20*time.Millisecond, "the node is asked again")
}

// A claim that failed is given back everywhere, also where its answer has not come yet.
func TestFailedClaimIsGivenBackEverywhere(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 5)
	a := newPeer(t, x.proxied()+"?node_timeout=200ms", "a")
	a.frees(a.takes(a.request("x")))
	for i := range 2 {
		do(t, x.servers[i], "SET", key("x"), "somebody", "PX", 60_000)
	}
	x.proxies[4].Freeze() // two for somebody, two for us, one that says nothing
	req := a.request("x")
	req.Queue = false
	h := a.waits(req)
	require.Equal(t, pollForeign, h.Poll)
	require.Eventually(t, func() bool { return x.having(t, key("x")) == 2 }, soon, time.Millisecond, "a vote that came late is given back then")
	x.proxies[4].Restore()
	require.Eventually(t, func() bool { return a.reaches(4) == nil }, soon, time.Millisecond)
	require.Eventually(t, func() bool { return do(t, x.servers[4], "EXISTS", key("x")) == int64(0) }, soon, time.Millisecond)
	require.Zero(t, a.claims.Len())
}

// A claim that arrives after it was abandoned is refused, so that no majority can grant it.
func TestAbandonedClaimIsRefusedWhenItArrives(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 3)
	direct, a := newPeer(t, x.url(), "direct"), newPeer(t, x.proxied(), "a")
	a.frees(a.takes(a.request("warm-up")))
	for _, p := range x.proxies {
		p.Freeze()
	}
	req := a.request("x")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := a.TryAcquire(ctx, req)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	direct.abandons(req)
	for _, p := range x.proxies {
		p.Restore()
	}
	a.catchesUp(0)
	require.Zero(t, x.having(t, key("x")))
	_, err = direct.try(req)
	require.ErrorIs(t, err, driver.ErrRefused)
	direct.frees(direct.takes(direct.request("x")))
	for _, s := range x.servers {
		require.LessOrEqual(t, do(t, s, "PTTL", redisscript.Side(key("x"), queueKey)).(int64), late.Milliseconds(), "remembered for a minute")
	}
}
