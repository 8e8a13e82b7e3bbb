package nats

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Bucket is the key-value bucket of the locks: see CreateBucket. Clients meet if theirs is the same. Default: "lockport".
	Bucket string
}

// New makes a client of lockport on js, whose connection carries every request. It does no I/O, and closing it does not close that connection.
func New(js jetstream.JetStream, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(js, o)
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(js jetstream.JetStream, o Options) (*Backend, error) {
	switch {
	case js == nil || js.Conn() == nil:
		return nil, errors.New("the JetStream is nil or has no connection: make it with jetstream.New")
	case js.Options().Domain != "" || js.Options().APIPrefix != "":
		return nil, fmt.Errorf("%w: a JetStream of another domain", errors.ErrUnsupported)
	}
	b, err := newBackend(o)
	if err == nil {
		b.link.js = js
	}
	return b, err
}

func newBackend(o Options) (*Backend, error) {
	b := &Backend{bucket: cmp.Or(o.Bucket, "lockport"), markers: make(map[string]uint64)}
	if strings.ContainsAny(keyOf(b.bucket), "=/") {
		return nil, fmt.Errorf("the option Bucket %q has other characters than letters, digits, _ and -", o.Bucket)
	}
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	bucket string
	link   link
	fit    atomic.Bool // the bucket was found to be fit for locks
	asked  sync.Map    // by owner, the revisions on which claims were put that are under way, or whose outcome is unknown

	mu      sync.Mutex
	markers map[string]uint64 // by name, the revisions of markers that this client wrote or saw
}

var _ interface {
	driver.Backend
	driver.Notifier
	driver.BatchRenewer
	driver.Inspector
	driver.Breaker
	driver.Checker
} = (*Backend)(nil)

var capabilities = driver.Capabilities{
	Backend:  "nats",
	Ends:     driver.EndsTTL,
	MinTTL:   time.Second,
	TTLGrain: time.Second,
	Token:    driver.TokenData,
	Fair:     driver.FairNone,
	Wake:     driver.WakeNotify,
	Failover: driver.FailoverUnsafe, // by the default of sync_interval, and with one replica
	// The renewal comes at a third of the TTL, and finds out.
	RemovalNotice: func(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// Close implements driver.Backend. It closes the connection too if that was made of a URL.
func (b *Backend) Close() error {
	b.link.close()
	return nil
}
