package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/batch"
	"github.com/lockport/lockport/internal/lockurl"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Prefix begins the keys of every lock. Clients meet if theirs is the same. Default: "lockport/".
	Prefix string
	// NoPrefix makes the keys begin with the name itself, to meet clients of other programs at keys that they have chosen.
	NoPrefix bool
}

// New makes a client of lockport on client, whose KV, Lease and Watcher carry every request: wrappers of them (package namespace) and the
// interceptors of its connection see all that lockport does. New does no I/O, and closing what it returns does not close client.
func New(client *clientv3.Client, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(client, o)
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(client *clientv3.Client, o Options) (*Backend, error) {
	if client == nil || client.KV == nil || client.Lease == nil || client.Watcher == nil {
		return nil, errors.New("the client is nil, or has no KV, Lease or Watcher: make it with clientv3.New")
	}
	return newBackend(&link{client: client}, o)
}

func newBackend(l *link, o Options) (*Backend, error) {
	prefix, err := lockurl.Prefix(o.Prefix, o.NoPrefix, defaultPrefix)
	if err != nil {
		return nil, err
	}
	b := &Backend{link: l, layout: layout{prefix: prefix}, claims: make(map[string]*claim), leases: make(map[time.Duration]*lease)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.writes = batch.Queue[request, answer]{Send: b.send, Alone: b.commit, Apart: func(r request) string { return r.name }}
	b.watches = watches{b: b, names: make(map[string][]*watch)}
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	link   *link
	layout layout
	writes batch.Queue[request, answer] // transactions that change something, one about each name in a batch

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines that end with ctx

	mu      sync.Mutex
	claims  map[string]*claim // being made, waiting, or held, by owner
	leases  map[time.Duration]*lease
	watches watches
	looked  int // how many claims renewals have looked at
}

var _ interface {
	driver.Backend
	driver.Waiter
	driver.Requeuer
	driver.BatchRenewer
	driver.Attacher
	driver.Inspector
	driver.Breaker
	driver.Checker
} = (*Backend)(nil)

var capabilities = driver.Capabilities{
	Backend:   "etcd",
	Ends:      driver.EndsTTL,
	MinTTL:    time.Second,
	TTLGrain:  time.Second,
	Token:     driver.TokenData,
	Fair:      driver.FairFIFO,
	Wake:      driver.WakeQueue,
	Failover:  driver.FailoverSafe,
	Prompt:    true,
	Queue:     true,
	Contended: true,
	Shared:    true,
	Permits:   true,
	Detach:    true,
	// A watch is opened 50 ms into the hold, and etcd may take 100 ms to send what happened before it was.
	RemovalNotice: func(time.Duration) time.Duration { return holderPatience + 200*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend. It closes the client too if that was made of a URL.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.running.Wait()
	return b.link.close()
}

// background runs f on a goroutine that Close waits for. The mutex is held.
func (b *Backend) background(f func()) {
	if b.ctx.Err() == nil {
		b.running.Go(f)
	}
}
