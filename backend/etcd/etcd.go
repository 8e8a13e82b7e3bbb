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
	// Prefix begins every lock's key. Clients with the same prefix share locks. Default: "lockport/".
	Prefix string
	// NoPrefix makes keys begin with the lock's name, so that you can use the keys of other programs.
	NoPrefix bool
}

// New makes a lockport client on client, whose KV, Lease and Watcher carry every request for a lock: wrappers (package namespace) and interceptors
// of its connection see them all. New does no I/O. Closing the lockport client leaves client open.
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
		return nil, errors.New("the client is nil or has no KV, Lease or Watcher: make it with clientv3.New")
	}
	return newBackend(client, nil, o)
}

func newBackend(client *clientv3.Client, config *clientv3.Config, o Options) (*Backend, error) {
	prefix, err := lockurl.Prefix(o.Prefix, o.NoPrefix, defaultPrefix)
	if err != nil {
		return nil, err
	}
	b := &Backend{client: client, config: config, layout: layout{prefix: prefix},
		claims: make(map[string]*claim), leases: make(map[time.Duration]*lease), doubted: make(map[*claim]struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.writes = batch.Queue[request, answer]{Send: b.send, Alone: b.commit, Apart: func(r request) string { return r.name }}
	b.watches.b, b.watches.names = b, make(map[string][]*watch)
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	config *clientv3.Config // of our own client; nil: the client is the caller's
	layout layout
	writes batch.Queue[request, answer] // transactions that write; a batch has one per name

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // goroutines that end with ctx; Close waits for them

	mu         sync.Mutex
	client     *clientv3.Client
	connecting *call             // creates our own client; nil: not in progress
	claims     map[string]*claim // in progress, waiting or held, by owner
	leases     map[time.Duration]*lease
	watches    watches
	confirmed  int                 // counts the claims that renewals have confirmed
	doubted    map[*claim]struct{} // holders whose keys confirmDoubted is to read
	confirming bool                // confirmDoubted runs
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
	// The watch opens 50 ms into the hold, and etcd may take 100 ms to send earlier events.
	RemovalNotice: func(time.Duration) time.Duration { return watchDelay + 200*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend. It also closes a client that was made from a URL.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.running.Wait()
	if b.config == nil || b.client == nil {
		return nil
	}
	if err := b.client.Close(); !errors.Is(err, context.Canceled) { // that is config.Context's
		return err
	}
	return nil
}

// background runs f on a goroutine that Close waits for. The mutex is held.
func (b *Backend) background(f func()) {
	if b.ctx.Err() == nil {
		b.running.Go(f)
	}
}
