package etcd

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// watchers is a clientv3.Watcher with prepared answers. It records the requested revisions.
type watchers struct {
	clientv3.Watcher
	asked   chan int64
	answers chan []clientv3.WatchResponse
}

func (w *watchers) Watch(_ context.Context, _ string, o ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet("", o...)
	w.asked <- op.Rev()
	all := <-w.answers
	ch := make(chan clientv3.WatchResponse, len(all))
	for _, r := range all {
		ch <- r
	}
	close(ch)
	return ch
}

// For a watch that starts in the past, etcd sends the events in parts, each with the store's current revision.
func TestWatchGoesOnAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	w := &watchers{asked: make(chan int64), answers: make(chan []clientv3.WatchResponse)}
	c := clientv3.NewCtxClient(t.Context())
	c.Watcher = w
	b := newBackendOn(t, c)
	told, missed := 0, 0
	b.mu.Lock()
	watched := &watch{prefix: "x/", from: 1, events: handler{func() { told++ }, func() { missed++ }}}
	b.watches.add(watched)
	b.mu.Unlock()
	event := func(revision int64) *clientv3.Event {
		return &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: revision}}
	}
	at := func(revision int64, r clientv3.WatchResponse) clientv3.WatchResponse {
		header := reflect.ValueOf(&r).Elem().FieldByName("Header") // a pointer since clientv3 3.7
		if header.Kind() == reflect.Pointer {
			header.Set(reflect.New(header.Type().Elem()))
			header = header.Elem()
		}
		header.FieldByName("Revision").SetInt(revision)
		return r
	}
	for _, step := range []struct {
		from   int64
		answer []clientv3.WatchResponse
	}{
		{1, []clientv3.WatchResponse{at(5000, clientv3.WatchResponse{Events: []*clientv3.Event{event(999), event(1000)}})}},
		{1001, []clientv3.WatchResponse{at(5000, clientv3.WatchResponse{CompactRevision: 2000, Canceled: true})}},
		{0, []clientv3.WatchResponse{at(6000, clientv3.WatchResponse{Created: true})}},
	} {
		require.Equal(t, step.from, <-w.asked)
		w.answers <- step.answer
	}
	require.EqualValues(t, 6001, <-w.asked)
	require.Equal(t, []int{2, 2}, []int{told, missed})
	b.cancel()
	w.answers <- nil
}

func newBackendOn(t *testing.T, c *clientv3.Client) *Backend {
	b, err := newBackend(&link{client: c}, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

type handler struct{ told, lost func() }

func (w handler) happened(string, bool) { w.told() }
func (w handler) missed()               { w.lost() }

// A watch that joins the shared one must check for itself if the shared one is past its first revision.
func TestJoiningTheSharedWatch(t *testing.T) {
	b := newBackendOn(t, clientv3.NewCtxClient(t.Context()))
	missed := make(chan int64, 3)
	b.mu.Lock()
	b.watches.shared, b.watches.next = func() {}, 10
	for _, w := range []*watch{{from: 9}, {from: 10}, {seen: 8}, {seen: 9}} {
		w.events = handler{nil, func() { missed <- w.from + w.seen }}
		b.watches.add(w)
	}
	b.mu.Unlock()
	require.ElementsMatch(t, []int64{9, 8}, []int64{<-missed, <-missed})
	require.NoError(t, b.Close())
	require.Empty(t, missed)
}

// A process with many locks has one shared watch. It reports losses to holders granted before it began, and to later ones.
func TestSharedWatch(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.Addr())
	n := newNode(t, s.URL())
	lost := make(chan int, 100)
	var leases []*claim
	takes := func(i int) {
		req := n.Request(name(i))
		req.TTL = time.Minute // no renewal checks the key
		req.Lost = func(error) { lost <- i }
		leases = append(leases, n.Takes(req).(*claim))
	}
	removes := func(i int) {
		t.Helper()
		_, err := etcd.Delete(t.Context(), leases[i].key)
		require.NoError(t, err)
		select {
		case told := <-lost:
			require.Equal(t, i, told)
		case <-time.After(soon):
			require.FailNow(t, "the holder was not told")
		}
	}
	shares := func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.watches.shared != nil }
	for i := range ownWatches + 8 {
		takes(i)
	}
	removes(0)
	peer.Until(t, shares)
	removes(1)
	takes(len(leases))
	removes(len(leases) - 1)
	other, waits := newNode(t, s.URL()), n.Request("waits")
	held := other.Takes(other.Request("waits"))
	n.Waits(waits)
	granted := make(chan error, 1)
	go func() { _, err := n.Wait(t.Context(), waits); granted <- err }()
	<-time.After(watchDelay)
	start := time.Now()
	n.Frees(held)
	require.NoError(t, <-granted)
	require.Less(t, time.Since(start), lookEvery/2)
	require.NoError(t, n.Abandon(t.Context(), waits))
	for i, c := range leases {
		if i == ownWatches {
			removes(i)
		}
		if err := n.Releases(c); !errors.Is(err, driver.ErrLost) {
			require.NoError(t, err)
		}
	}
	require.False(t, shares())
}
