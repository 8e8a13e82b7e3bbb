package zookeeper

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// interested is how many are to be told of the node at path.
func (l *life) interested(path string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.watches[path]; w != nil {
		return len(w.calls)
	}
	return 0
}

// A node that is not there is not watched, and nothing is left of who asked.
func TestNobodyWatchesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	b := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr())
	l, err := b.live(within(t, soon))
	require.NoError(t, err)
	exists, _, err := l.watch(within(t, soon), "/nothing", func() {})
	require.NoError(t, err)
	require.False(t, exists)
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.watches)
}

// A server tells of one event: who is interested after it has the server told anew.
func TestWatchesAreSetAgain(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	raw := newRaw(t, s.Addr())
	b := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr())
	l, err := b.live(within(t, soon))
	require.NoError(t, err)
	_, err = raw.Create("/watched", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	for range 3 {
		fired := make(chan struct{}, 2)
		for range 2 {
			exists, _, err := l.watch(within(t, soon), "/watched", func() { fired <- struct{}{} })
			require.NoError(t, err)
			require.True(t, exists)
		}
		_, err = raw.Set("/watched", []byte("x"), -1)
		require.NoError(t, err)
		for range 2 {
			select {
			case <-fired:
			case <-time.After(soon):
				require.Fail(t, "nobody was told")
			}
		}
	}
}

// A holder's node that could not be watched is watched later, as long as it is held.
func TestNodesAreWatchedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tap, server := quietLife(time.Second)
		defer func() { _ = server.Close() }()
		l := tap.life
		l.ctx, l.cancel = context.WithCancel(t.Context())
		defer l.cancel()
		armers := func() int {
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.armers
		}
		fail := func() { // an attempt
			time.Sleep(armAfter + armAgain)
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.failures++
			l.tell()
		}
		c := &claim{b: l.b, l: l, state: held, path: "/x/y"}
		require.True(t, l.keep(c))
		for range 3 {
			fail()
			require.Equal(t, 1, armers())
		}
		l.drop(c)
		fail()
		require.Zero(t, armers())
	})
}

// A life keeps nothing of claims that have ended: neither of those that were held, nor of those that waited in vain.
func TestLifeForgetsItsClaims(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	b, other := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr()), newBackend(t, Options{TTL: 10 * time.Second}, s.Addr())
	for range 3 {
		frees(t, takes(t, b, request(b, t.Name())))
	}
	first := takes(t, other, request(other, t.Name()))
	l, err := b.live(within(t, soon))
	require.NoError(t, err)
	req := request(b, t.Name())
	req.Queue = true
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() {
			_, err := b.Wait(ctx, req)
			waited <- err
		}()
		var own string
		require.Eventually(t, func() bool {
			if c := b.known(claimKey{req.Name, req.Owner}); c != nil {
				own = c.node()
			}
			return own != "" && l.interested(own) > 0
		}, soon, time.Millisecond)
		require.Equal(t, 1, l.interested(first.node()))
		cancel()
		require.ErrorIs(t, <-waited, driver.ErrUnknown)
		require.Zero(t, l.interested(first.node()))
		require.Zero(t, l.interested(own))
	}
	require.NoError(t, b.Abandon(within(t, soon), req))
	frees(t, first)
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.held)
}

// Who waits is woken by the one ahead of it alone, and finds out at once that its own node has gone before it could be watched.
func TestEachWatchesTheOneAhead(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	o := Options{TTL: 30 * time.Second}
	b, other := newBackend(t, o, s.Addr()), newBackend(t, o, s.Addr())
	l, err := b.live(within(t, soon))
	require.NoError(t, err)
	first := takes(t, other, request(other, t.Name()))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	ahead := first.node()
	for range 3 {
		req := request(b, t.Name())
		req.Queue = true
		waiting.Go(func() { _, _ = b.Wait(ctx, req) })
		require.Eventually(t, func() bool {
			c := b.known(claimKey{req.Name, req.Owner})
			return c != nil && c.node() != "" && l.interested(c.node()) == 1 && l.interested(ahead) >= 1
		}, soon, time.Millisecond)
		ahead = b.known(claimKey{req.Name, req.Owner}).node()
	}
	require.Equal(t, 1, l.interested(first.node()))

	c := b.newClaim(l, request(b, t.Name()))
	c.path = c.parent + "/nothing"
	_, err = c.sleep(within(t, soon), place{children: []string{base(first.node()), "nothing"}, at: 1})
	require.ErrorIs(t, err, errGone)
}

// A watch that has fired before its answer was heard of arms nothing: what others began with since is another one.
func TestWhatHasFiredArmsNothing(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	b := newBackend(t, Options{TTL: 10 * time.Second}, s.Addr())
	l, err := b.live(within(t, soon))
	require.NoError(t, err)
	fired, others := new(watch), new(watch)
	l.mu.Lock()
	l.watches["/"] = others
	l.mu.Unlock()
	exists, err := l.arm("/", fired)
	require.NoError(t, err)
	require.True(t, exists)
	require.False(t, others.armed, "the server tells of it no more")
	_, err = l.arm("/", others)
	require.NoError(t, err)
	require.True(t, others.armed)
}
