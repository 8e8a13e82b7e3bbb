package nats

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An uncontended lock and its release, beside the two bare requests that they are.
func BenchmarkCycle(b *testing.B) {
	r := one.Need(b)
	js := connect(b, r.URL(r.Addrs()))
	last := uint64(0)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			for _, ttl := range []time.Duration{30 * time.Second, time.Minute} {
				ack, err := js.Publish(b.Context(), "$KV.lockport.bare", []byte("x"), jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithMsgTTL(ttl))
				require.NoError(b, err)
				last = ack.Sequence
			}
		}
	})
	b.Run("lockport", func(b *testing.B) {
		c, err := New(js, Options{})
		require.NoError(b, err)
		defer func() { _ = c.Close() }()
		for b.Loop() {
			l, err := c.Acquire(b.Context(), "client")
			require.NoError(b, err)
			require.NoError(b, l.Release(b.Context()))
		}
	})
}

// What it takes to renew ten thousand locks.
func BenchmarkRenew10000(b *testing.B) {
	r := one.Need(b)
	n := backend(b, connect(b, r.URL(r.Addrs())))
	leases := make([]*lease, 10_000)
	for i := range leases {
		req := request(fmt.Sprint("renewed/", i), i)
		req.TTL = time.Hour
		leases[i] = take(b, n, req)
	}
	for b.Loop() {
		var renewers sync.WaitGroup
		for first := range 32 { // as many at a time as the client
			renewers.Go(func() {
				for i := first; i < len(leases); i += 32 {
					_, err := leases[i].Renew(b.Context())
					assert.NoError(b, err)
				}
			})
		}
		renewers.Wait()
	}
}
