package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
	"github.com/lockport/lockport/internal/redisscript"
)

// After split votes all claims but one release theirs, and that one gets them, although nobody waits. This works with a silent node too. Distant
// nodes cause no errors: the name is held, by one claim or by none yet. Nobody wins a round in which the machine stalls for longer than contestTime.
func TestSplitVotesResolve(t *testing.T) {
	t.Parallel()
	for _, arrangement := range []string{"well", "hung", "distant"} {
		x := newNodes(t, 5, servers.RedisOptions{})
		var clients []*client
		for i := range x.servers { // each asks a different node first
			c := newClient(t, urlTo(slices.Concat(x.proxies[i:], x.proxies[:i])...), fmt.Sprint(i))
			c.Frees(c.Takes(c.Request("warm-up")))
			clients = append(clients, c)
		}
		switch arrangement {
		case "hung":
			x.proxies[4].Freeze()
		case "distant":
			x.proxies.Each(func(p *faultproxy.Proxy) { p.Delay(50 * time.Millisecond) }) // each way
		}
		const rounds, stalls = 20, 3
		won := 0
		for round := range rounds {
			granted := 0
			for _, err := range worker.AtOnce(clients, func(_ int, c *client) error {
				return peer.ErrOf(c.Try(peer.Once(c.Request(fmt.Sprint("x", round)))))
			}) {
				if err == nil {
					granted++
				} else {
					require.ErrorIs(t, err, driver.ErrHeld)
				}
			}
			require.LessOrEqual(t, granted, 1, "round %d, %s", round, arrangement)
			won += granted
		}
		if arrangement != "distant" {
			require.GreaterOrEqual(t, won, rounds-stalls, arrangement)
		}
	}
}

// Claims of one process for a name queue at every node. Nodes that answer them in turn are not silent. A claim that has failed is no longer sent.
func TestALongLineIsNoSilence(t *testing.T) {
	x := plainNodes(t, 3)
	a := newClient(t, x.proxied(), "a")
	a.Frees(a.Takes(a.Request("warm-up")))
	for i, p := range x.proxies {
		p.Delay(time.Duration(30+i/2*15) * time.Millisecond) // each way; the last node is slower
	}
	require.NoError(t, cmp.Or(worker.AtOnce(make([]struct{}, 25), func(int, struct{}) error { // a queue of 1.5 s at each node, and as much to release
		for range 3 {
			lease, err := a.TryAcquire(t.Context(), peer.Once(a.Request("x")))
			if err == nil {
				err = lease.Release(t.Context())
			}
			if err != nil && !errors.Is(err, driver.ErrHeld) {
				return err
			}
		}
		return nil
	})...))
	x.empty(t, "x")
}

// All nodes have the waiters in the order in which they began to wait, whatever the order of arrival.
func TestAllNodesHaveOneOrder(t *testing.T) {
	x := plainNodes(t, 5)
	a := newClient(t, x.url(), "a")
	lease := a.Takes(a.Request("x"))
	x.full(t, "x")
	var reqs []driver.Request
	var want []any
	var clients []*client
	for i := range 3 {
		p := newClient(t, x.url(), fmt.Sprint(i))
		req := p.Request("x")
		peer.Must(p.claims.Enter(req))(t) // begins to wait
		<-time.After(time.Millisecond)
		clients, reqs, want = append(clients, p), append(reqs, req), append(want, req.Owner)
	}
	peer.Until(t, func() bool {
		for _, i := range []int{2, 0, 1} {
			clients[i].Waits(reqs[i]) // again if a slow node has missed it
		}
		return !slices.ContainsFunc(x.servers, func(s *servers.Redis) bool {
			got, _ := do(t, s, "ZRANGE", queueOf("x"), 0, -1).([]any)
			return !slices.Equal(got, want)
		})
	})
	a.Frees(lease)
	for i, c := range clients {
		c.Abandons(reqs[i])
	}
	x.empty(t, "x")
}

// The suite shows that validity counts from the sending of a request.
func TestValidityKeepsADrift(t *testing.T) {
	a := newClient(t, plainNodes(t, 3).url(), "a")
	req := a.Request("x")
	req.TTL = 100 * time.Second
	const valid = 98998 * time.Millisecond
	sent := time.Now()
	lease := a.Takes(req)
	require.WithinRange(t, lease.Grant().Until, sent.Add(valid), time.Now().Add(valid))
	sent = time.Now()
	many := make([]driver.Renewal, redisscript.MaxTogether+1) // more than a script renews
	a.RenewBatch(t.Context(), slices.Repeat([]driver.Lease{lease}, len(many)), many)
	for _, r := range many {
		require.WithinRange(t, r.Until, sent.Add(valid), time.Now().Add(valid))
	}
	lease.(*claim).waitsUntil(t, func() bool { lease.(*claim).until = sent; return true }) // a retake may be under way
	require.ErrorIs(t, peer.ErrOf(a.Renews(lease)), driver.ErrUnknown, "the validity has ended")
	require.ErrorIs(t, (&attempt{claim: lease.(*claim), sent: sent.Add(-valid)}).accept(), driver.ErrUnavailable, "the validity has ended")
}
