package redis

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// What is kept for a claim, beside its name and owner id, which the client keeps too: no key and no value.
func TestMemoryOfAClaim(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{}) // never used
	b, err := NewBackend(client, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = b.Close(), client.Close() })
	const n = 10_000
	reqs := make([]driver.Request, n)
	for i := range reqs {
		reqs[i] = driver.Request{Name: fmt.Sprintf("%064d", i), Owner: fmt.Sprintf("%032x:test/1/x/0", i), TTL: time.Minute, Queue: true}
	}
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	for _, req := range reqs {
		_, err := b.enter(req)
		require.NoError(t, err)
	}
	each := (inUse() - before) / n
	t.Logf("%d bytes", each)
	require.LessOrEqual(t, each, int64(300), "208 and a place in the registry, which is a map that grows by doubling")
	runtime.KeepAlive(reqs)
}
