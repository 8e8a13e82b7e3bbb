package redisclaims

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// member is a backend's claim.
type member struct{ Claim }

func newRegistry(t *testing.T, quorum int) *Registry[*member] {
	r := New(Options[*member]{Quorum: quorum, New: func(req driver.Request) *member { return &member{Claim{Req: req}} }})
	t.Cleanup(r.Close)
	return r
}

var request = driver.Request{Name: "x", Owner: fmt.Sprintf("%032x:test/1/x", 1), TTL: time.Second}

// enters makes a request of the claim.
func enters(t *testing.T, r *Registry[*member]) *member { return peer.Must(r.Enter(request))(t) }

// A claim tries once a quorum of servers has called it, or quorumWait after the first call. A call before a wake or a subscription is not lost.
func TestQuorumWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t, 3)
		m := enters(t, r)
		r.Answered(m, true, driver.ErrHeld)
		woken := make(chan struct{}, 10)
		stop := r.Notify(request, func() { woken <- struct{}{} })
		word := "w" + request.Owner
		r.handle(0, word)
		r.handle(0, word) // the same server again does not count
		r.handle(4, word)
		require.Empty(t, woken)
		r.handle(2, word)
		require.Len(t, woken, 1, "at once")
		<-woken

		time.Sleep(quorumWait / 2)
		enters(t, r) // a new request: earlier calls are void
		start := time.Now()
		r.handle(1, word)
		<-woken
		require.Equal(t, quorumWait, time.Since(start))

		stop()
		for i, call := range []func(){func() { r.handle(1, word) }, func() { r.setHeard(1, true) }} {
			enters(t, r)
			call()
			time.Sleep(quorumWait)
			synctest.Wait()
			r.Notify(request, func() { woken <- struct{}{} })()
			require.Len(t, woken, i+1, "at once")
		}
	})
}

// A held claim is broken once a quorum of servers says so, at the latest when its grant is known. Such words about a waiting claim do nothing.
func TestQuorumBreaks(t *testing.T) {
	for _, quorum := range []int{1, 2} {
		r, broken, word := newRegistry(t, quorum), make(chan error, 10), "l"+request.Owner
		m := enters(t, r)
		m.Req.Lost = func(err error) { broken <- err }
		r.handle(0, word)
		require.Empty(t, broken, "its grant is not known")
		r.Answered(m, true, nil)
		require.Len(t, broken, 2-quorum, "one of %d servers has said so", quorum)
		r.handle(0, word)
		r.handle(1, "") // as Check sends it
		require.Len(t, broken, 2-quorum, "one of %d servers has said so", quorum)
		for range 2 {
			r.handle(1, word)
			require.Len(t, broken, 1)
		}
		require.ErrorIs(t, <-broken, driver.ErrLost)
		require.Empty(t, r.members)
	}
}

// A claim is void only if none of its requests had, or may have, an effect.
func TestVoidClaims(t *testing.T) {
	for what, test := range map[string]struct {
		answers []error
		void    bool
	}{
		"refused and unavailable": {[]error{driver.ErrRefused, driver.ErrUnavailable}, true},
		"queued":                  {[]error{driver.ErrHeld, driver.ErrUnavailable}, false},
		"unknown":                 {[]error{driver.ErrUnknown, driver.ErrUnavailable}, false},
		"granted":                 {[]error{nil}, false},
	} {
		r := newRegistry(t, 1)
		for _, err := range test.answers {
			r.Answered(enters(t, r), true, err)
		}
		_, _, void := r.Find(request)
		require.Equal(t, test.void, void, what)
	}
}
