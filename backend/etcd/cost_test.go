package etcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// counter counts what etcd receives.
func counter(t *testing.T, s *servers.Etcd) func() int64 {
	last, err := requestsOf(t.Context(), s)
	require.NoError(t, err)
	return func() int64 {
		now, err := requestsOf(t.Context(), s)
		require.NoError(t, err)
		n := now - last
		last = now
		return n
	}
}

func TestUncontendedCycleIsTwoRequests(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	n := newNode(t, s.URL(), "a")
	request := func(name string) driver.Request {
		req := n.request(name)
		req.TTL = time.Minute
		return req
	}
	frees(t, n.takes(request("x")))
	requests := counter(t, s)
	for i := range 10 {
		frees(t, n.takes(request(name(i))))
	}
	require.EqualValues(t, 20, requests())
	held := n.takes(request("x"))
	<-time.After(4 * holderPatience) // its watch has begun
	requests()
	_, err := n.try(request("x"))
	require.ErrorIs(t, err, driver.ErrHeld)
	require.EqualValues(t, 2, requests(), "finding it held, and waiting in the queue")
	frees(t, held)
}

func TestManyLocksAreOneLease(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	n := newNode(t, s.URL(), "a")
	const locks = 2000
	leases := make([]driver.Lease, locks)
	for i := range leases {
		req := n.request(name(i))
		req.TTL, req.Name = time.Minute, req.Name+req.Owner
		leases[i] = n.takes(req)
	}
	renew := func() {
		results := make([]driver.Renewal, locks)
		n.RenewBatch(t.Context(), leases, results)
		for _, r := range results {
			require.NoError(t, r.Err)
			require.Greater(t, time.Until(r.Until), 55*time.Second)
		}
	}
	renew() // opens the stream
	requests := counter(t, s)
	for range 10 {
		renew()
	}
	require.EqualValues(t, 20, requests(), "keep-alives, and looks at some of the keys")
	list, err := newClient(t, s.URL()).Leases(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Leases, 1)
}
