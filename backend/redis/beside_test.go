package redis

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// reading is a reader's claim that is ready to wait.
func (n *node) reading(name string) driver.Request {
	req := n.request(name)
	req.Shared = true
	return req
}

// permit is a claim of one of two permits that is ready to wait.
func (n *node) permit(name string) driver.Request {
	req := n.request(name)
	req.Permits = 2
	return req
}

// until is how long owner holds, by the set of holders.
func until(t testing.TB, s *servers.Redis, set, owner string) time.Duration {
	t.Helper()
	ms, err := strconv.ParseInt(do(t, s, "ZSCORE", set, owner).(string), 10, 64)
	require.NoError(t, err)
	return time.Until(time.UnixMilli(ms))
}

// The page of the backend has these vectors. A change is a major version.
func TestWireGoldenOfReaders(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	name := t.Name()
	key, set := "lockport:"+name, "lockport.side:{lockport:"+name+"}:readers"
	first, second := a.reading(name), b.reading(name)
	second.TTL = 20 * time.Second
	leases := []driver.Lease{a.takes(first), b.takes(second)}
	require.Equal(t, "lp1:00000000000000000000000000000000:readers", do(t, s, "GET", key))
	require.Equal(t, []any{first.Owner, second.Owner}, do(t, s, "ZRANGE", set, 0, -1))
	require.InDelta(t, 10, until(t, s, set, first.Owner).Seconds(), 3)
	require.InDelta(t, 20, until(t, s, set, second.Owner).Seconds(), 3)
	require.InDelta(t, 20_000, do(t, s, "PTTL", key), 3000, "the latest end")

	// An earlier release sends the requests of a writer alone. It queues, as behind another client of lockport.
	writer := a.request(name)
	h := a.waits(writer)
	woken := a.notified(writer)
	require.NotEqual(t, pollForeign, h.Poll)
	require.True(t, h.Holder.Shared)
	frees(t, leases[1])
	require.InDelta(t, 10_000, do(t, s, "PTTL", key), 3000, "the latest end of those that are left")
	frees(t, leases[0])
	eventually(t, woken)
	frees(t, a.takes(writer))
	require.Empty(t, keysOf(t, s, name))
	require.Equal(t, int64(0), do(t, s, "EXISTS", set))
}

func TestWireGoldenOfPermits(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	name := t.Name()
	side := "lockport.side:{lockport:" + name + "}:permits"
	first := a.permit(name)
	lease := a.takes(first)
	require.Equal(t, []any{first.Owner, "#"}, do(t, s, "ZRANGE", side, 0, -1))
	require.InDelta(t, 10, until(t, s, side, first.Owner).Seconds(), 3)
	require.Equal(t, "4000000000000002", do(t, s, "ZSCORE", side, "#"))
	require.InDelta(t, 10_000, do(t, s, "PTTL", side), 3000)

	other := b.permit(name)
	other.Permits = 3
	_, err := b.try(other)
	require.ErrorIs(t, err, driver.ErrInvalidOption)
	require.ErrorIs(t, err, driver.ErrRefused)

	last, waiter := b.takes(b.permit(name)), a.permit(name)
	h := a.waits(waiter)
	require.InDelta(t, 10, h.ExpiresIn.Seconds(), 3, "the first of them ends then")
	require.Equal(t, []any{waiter.Owner, "1"}, do(t, s, "ZRANGE", side+"-queue", 0, -1, "WITHSCORES"))
	woken := a.notified(waiter)
	frees(t, lease)
	eventually(t, woken)
	frees(t, a.takes(waiter))
	frees(t, last)
	require.Equal(t, int64(0), do(t, s, "EXISTS", side, side+"-queue", "lockport:"+name))
	frees(t, b.takes(other)) // nobody has a permit: their number may change
}

// What is left of readers whose lock was removed does not come to life with the next ones.
func TestRemovedReadersStayRemoved(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	n := newNode(t, s.URL(), "x", Options{})
	name := t.Name()
	old := n.takes(n.reading(name))
	do(t, s, "DEL", defaultLayout.Key(name))
	next := n.takes(n.reading(name))
	_, err := n.renews(old)
	require.ErrorIs(t, err, driver.ErrLost)
	require.ErrorIs(t, old.Release(t.Context()), driver.ErrLost)
	_, err = n.renews(next)
	require.NoError(t, err)
	frees(t, next)
}

// A writer that waits keeps later readers out as long as it answers.
func TestDeadWriterIsPassedOver(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	name := t.Name()
	here := a.takes(a.reading(name))
	a.notified(a.request("another")) // the client listens
	writer, reader := b.request(name), a.reading(name)
	b.waits(writer)
	require.Equal(t, pollHeard, a.waits(reader).Poll)
	woken := b.notified(writer)
	for _, poll := range []time.Duration{pollCalled, pollHeard} {
		require.Equal(t, poll, a.waits(reader).Poll) // looks again, and calls the head
		eventually(t, woken)
		b.waits(writer) // there is no room for it
		time.Sleep(300 * time.Millisecond)
	}
	time.Sleep(a.waits(reader).Poll) // the writer does not answer
	there := a.takes(reader)
	frees(t, here)
	frees(t, there)
	b.abandons(writer)
	require.Empty(t, keysOf(t, s, name))
}

// A writer that gives up lets in the readers that wait behind it.
func TestAbandonedWriterLetsReadersIn(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	name := t.Name()
	here := a.takes(a.reading(name))
	writer, reader := b.request(name), a.reading(name)
	b.waits(writer)
	a.waits(reader)
	woken := a.notified(reader)
	b.abandons(writer)
	eventually(t, woken)
	frees(t, a.takes(reader))
	frees(t, here)
}

// Holders beside each other are told at once that somebody waits, by a writer that is told itself that readers have the name, and by those who wait
// for a permit.
func TestHoldersBesideAreTold(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	a.notified(a.request("another")) // the client listens
	for i, req := range []func(*node, string) driver.Request{(*node).reading, (*node).permit} {
		name := fmt.Sprint(t.Name(), i)
		first, second := req(a, name), req(a, name)
		told := make(chan struct{}, 100)
		first.Contended = func() { told <- struct{}{} }
		second.Contended = first.Contended
		other, renewed := a.takes(first), a.takes(second)
		waiter := b.request(name)
		if i == 1 {
			waiter = b.permit(name)
		}
		b.waits(waiter)
		eventually(t, told)
		eventually(t, told)
		_, err := a.renews(renewed)
		require.NoError(t, err)
		eventually(t, told)
		b.abandons(waiter)
		frees(t, other)
		frees(t, renewed)
	}
}

// A claim that is abandoned while it is on its way is refused when it arrives.
func TestAbandonedClaimsBesideAreRefused(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	n := newNode(t, s.URL(), "x", Options{})
	for i, req := range []func(string) driver.Request{n.reading, n.permit} {
		late := req(fmt.Sprint(t.Name(), i))
		n.abandons(late)
		_, err := n.try(late)
		require.ErrorIs(t, err, driver.ErrRefused)
	}
	held, late := n.request(t.Name()), n.request(t.Name())
	lease := n.takes(held)
	n.abandons(late)
	_, err := n.Attach(t.Context(), late, held.Owner, lease.Grant().Token)
	require.ErrorIs(t, err, driver.ErrRefused)
	frees(t, lease)
}

// A renewal counts from before it was sent, and an attached claim has its whole TTL.
func TestValidityBeside(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "x", Options{})
	for _, req := range []driver.Request{n.reading(t.Name()), n.permit(t.Name())} {
		lease := n.takes(req)
		do(t, s, "CLIENT", "PAUSE", 1000)
		asked := time.Now()
		until, err := n.renews(lease)
		require.NoError(t, err)
		require.WithinDuration(t, asked.Add(req.TTL), until, 500*time.Millisecond)
		frees(t, lease)
	}
	req := n.request(t.Name())
	req.TTL = time.Second
	lease := n.takes(req)
	require.NoError(t, n.Detach(t.Context(), lease))
	next := n.request(t.Name())
	attached, err := n.Attach(t.Context(), next, req.Owner, lease.Grant().Token)
	require.NoError(t, err)
	require.InDelta(t, 10_000, do(t, s, "PTTL", defaultLayout.Key(t.Name())), 3000)
	frees(t, attached)
}

// Who comes in by its turn calls the next, as long as there is room: a release calls one alone, and an expiry nobody.
func TestNextComesInToo(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	for i, req := range []func(*node, string) driver.Request{(*node).reading, (*node).permit} {
		name := fmt.Sprint(t.Name(), i)
		lease := a.takes(a.request(name)) // a writer
		if i == 1 {
			frees(t, lease)
			a.takes(a.permit(name))
			a.takes(a.permit(name))
		}
		first, second := req(a, name), req(b, name)
		a.waits(first)
		b.waits(second)
		woken := b.notified(second)
		if i == 0 {
			frees(t, lease)
		} else {
			do(t, s, "DEL", "lockport.side:{lockport:"+name+"}:permits")
		}
		one := a.takes(first)
		eventually(t, woken)
		frees(t, b.takes(second))
		frees(t, one)
	}
}

// Holders beside each other are seen, and one of them is ended alone. In a Cluster all keys of a name have its slot.
func TestInspectAndBreakBeside(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		testInspectAndBreakBeside(t, newClient(t, servers.SharedRedis(t).URL()))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: servers.NeedCluster(t, servers.RedisOptions{}).Addrs()})
		t.Cleanup(func() { _ = c.Close() })
		testInspectAndBreakBeside(t, c)
	})
}

func testInspectAndBreakBeside(t *testing.T, client goredis.UniversalClient) {
	n := nodeOn(t, client, "x", Options{})
	name := t.Name()
	for _, req := range []func(string) driver.Request{n.reading, n.permit} {
		first, second := req(name), req(name)
		lost := make(chan struct{}, 1)
		first.Lost = func(error) { lost <- struct{}{} }
		broken, lease := n.takes(first), n.takes(second)
		results := make([]driver.Renewal, 3)
		plain := n.takes(n.request(name + " plain"))
		n.RenewBatch(t.Context(), []driver.Lease{broken, plain, lease}, results)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
		frees(t, plain)
		n.notified(n.request("another")) // the client listens
		st, err := n.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.True(t, st.Held)
		require.Equal(t, []any{first.Shared, first.Permits}, []any{st.Shared, st.Permits})
		require.Len(t, st.Others, 1)
		require.ElementsMatch(t, []string{first.Owner, second.Owner}, []string{st.Owner, st.Others[0].Owner})
		require.InDelta(t, 10, time.Until(st.Expires).Seconds(), 3)
		listed, err := n.List(t.Context(), name)
		require.NoError(t, err)
		require.Len(t, listed, 1)
		require.Len(t, listed[0].Others, 1)

		require.NoError(t, n.Break(t.Context(), name, first.Owner))
		eventually(t, lost)
		require.ErrorIs(t, n.Break(t.Context(), name, first.Owner), driver.ErrLost)
		require.ErrorIs(t, broken.Release(t.Context()), driver.ErrLost)
		frees(t, lease)
		st, err = n.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, st.Held)
	}
}

// redis-py's own lock writes a file in two halves, which our readers never see differ.
func TestRedisPyBesideReaders(t *testing.T) {
	t.Parallel()
	python := servers.NeedPythonRedis(t)
	s := servers.SharedRedis(t)
	name, file := t.Name(), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("0 0"), 0o600))
	cmd := exec.Command(python, "-c", `import redis, sys, time
r = redis.Redis.from_url(sys.argv[1])
for i in range(100):
    with redis.lock.Lock(r, sys.argv[2], timeout=10, sleep=0.001):
        old = open(sys.argv[3]).read().split()[1]
        for text in ("%d %s" % (i, old), "%d %d" % (i, i)):
            open(sys.argv[3], "w").write(text)
            time.sleep(0.002)`, s.URL(), defaultLayout.Key(name), file)
	var said []byte
	done := make(chan error, 1)
	go func() {
		var err error
		said, err = cmd.CombinedOutput()
		done <- err
	}()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	var reads, beside int
	var mu sync.Mutex
	present := 0
	for range 3 {
		n := newNode(t, s.URL(), "reader", Options{})
		readers.Go(func() {
			for range 100_000 {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond):
				}
				req := n.reading(name)
				req.Queue = false
				lease, err := n.try(req)
				if isHeld(err) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				reads++
				if present++; present > 1 {
					beside++
				}
				mu.Unlock()
				text, _ := os.ReadFile(file)
				if len(text)%2 == 0 || string(text[:len(text)/2]) != string(text[len(text)/2+1:]) {
					t.Errorf("a reader saw %q", text)
				}
				mu.Lock()
				present--
				mu.Unlock()
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	err := <-done
	close(stop)
	readers.Wait()
	require.NoError(t, err, string(said))
	t.Logf("%d reads, %d of them beside others", reads, beside)
	require.Positive(t, reads)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "99 99", string(text))
}
