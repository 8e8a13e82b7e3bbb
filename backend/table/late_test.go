package table

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A claim abandoned in flight is not granted on arrival: for a minute, up to a bounded number of claims.
func TestAbandonedClaimThatArrivesLate(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, _ string) {
		for n := range 2 { // the name has no row, then one
			require.NoError(t, b.Abandon(t.Context(), request("a", n+1)))
			var h *driver.HeldError // without a holder, as when a proxy asks a replica that lags: the next claim should not follow at once
			require.ErrorAs(t, peer.Fails(t, b, request("a", n+1), driver.ErrHeld), &h)
			require.Zero(t, h.ExpiresIn)
			require.Greater(t, h.Poll, 50*time.Millisecond)
			require.False(t, peer.Shows(t, b, "a").Held)
		}
		abandoned := func() [][]string { return do(t, b, "SELECT abandoned FROM {table}") }
		require.Equal(t, [][]string{{fmt.Sprintf("%032x%032x", 1, 2)}}, abandoned())
		peer.Takes(t, b, request("a", 3)) // another's claim

		long := strings.Repeat("x", 32*1000)
		for range 2 { // the minute counts from the last one
			do(t, b, "UPDATE {table} SET abandoned = '"+long+"', abandoned_at = abandoned_at - 50000000")
			require.NoError(t, b.Abandon(t.Context(), request("a", 4)))
			require.Equal(t, [][]string{{long[32:] + fmt.Sprintf("%032x", 4)}}, abandoned())
		}
		do(t, b, "UPDATE {table} SET abandoned_at = abandoned_at - 61000000")
		require.NoError(t, b.Abandon(t.Context(), request("a", 5)))
		require.Equal(t, [][]string{{fmt.Sprintf("%032x", 5)}}, abandoned())
	})
}

// A copy of a granted claim may wait for the row while renewals extend the lock, or arrive after the release: it takes and shortens nothing.
func TestLateCopyOfAGrantedClaim(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, _ string) {
		lease := peer.Takes(t, b, request("a", 1))
		expires := func() int64 { return number(do(t, b, "SELECT expires FROM {table}")[0][0]) }
		renewed := expires() + 60000000
		for _, earlier := range []int64{renewed - 90000000, renewed} {
			do(t, b, "UPDATE {table} SET expires = ?", earlier)
			again := peer.Takes(t, b, request("a", 1))
			require.Equal(t, lease.Grant().Token, again.Grant().Token)
			require.GreaterOrEqual(t, time.UnixMicro(expires()), again.Grant().Until)
		}
		require.Equal(t, renewed, expires())
		require.NoError(t, lease.Release(t.Context()))
		second := peer.Takes(t, b, request("a", 2)).Grant().Token
		do(t, b, "UPDATE {table} SET expires = ?", renewed)
		require.NoError(t, b.Abandon(t.Context(), request("a", 2)))
		require.False(t, peer.Shows(t, b, "a").Held)
		require.Greater(t, peer.Takes(t, b, request("a", 3)).Grant().Token, second)
		require.Less(t, expires(), renewed, "the next owner inherited the expiry")
	})
}

// A renewal that waited for a row does not shorten what later ones have confirmed. Only MySQL goes on with a statement whose client has left.
func TestLateRenewalShortensNothing(t *testing.T) {
	onServers(t, func(t *testing.T, _ Dialect, b *Backend, _ string) {
		var leases []driver.Lease
		for i, name := range []string{"a", "b"} {
			leases = append(leases, peer.Takes(t, b, request(name, i+1)))
		}
		tx := lockRow(t, b, "a")
		defer func() { _ = tx.Rollback() }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var renewal sync.WaitGroup
		renewal.Go(func() { b.RenewBatch(ctx, leases, make([]driver.Renewal, 2)) })
		require.Eventually(t, func() bool {
			return len(do(t, b, "SELECT id FROM information_schema.processlist WHERE info LIKE 'UPDATE {table} SET expires = GREATEST%'")) > 0
		}, within, time.Millisecond)
		cancel() // it goes on at the server
		renewal.Wait()
		peer.Extends(t, b, leases[1])
		expires := func(name string) int64 {
			return number(do(t, b, "SELECT expires FROM {table} WHERE name = ?", name)[0][0])
		}
		a, confirmed := expires("a"), expires("b")
		require.NoError(t, tx.Rollback())
		require.Eventually(t, func() bool { return expires("a") != a }, within, 10*time.Millisecond) // the late renewal has run
		require.GreaterOrEqual(t, expires("b"), confirmed)
	}, MySQL)
}
