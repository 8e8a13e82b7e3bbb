package nats

import (
	"cmp"
	"context"
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
	// Bucket is the key-value bucket of the locks: see CreateBucket. Clients with the same bucket share locks. Default: "lockport".
	Bucket string
}

// New makes a lockport client on js, whose connection carries every request. It does no I/O. Closing the client leaves the connection open.
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
		return nil, fmt.Errorf("%w: a JetStream with a domain or an API prefix", errors.ErrUnsupported)
	}
	return newBackend(js, nil, o)
}

func newBackend(js jetstream.JetStream, dial func(context.Context) (jetstream.JetStream, error), o Options) (*Backend, error) {
	b := &Backend{js: js, dial: dial, bucket: cmp.Or(o.Bucket, "lockport")}
	if strings.ContainsAny(keyOf(b.bucket), "=/") {
		return nil, fmt.Errorf("the option Bucket %q has characters other than letters, digits, _ and -", o.Bucket)
	}
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	bucket string
	fit    atomic.Bool // the bucket was found suitable for locks
	free   recent      // the revision at which a name was seen free: the next claim expects it, and then needs one request

	mu   sync.Mutex
	js   jetstream.JetStream                                // nil: not made yet
	dial func(context.Context) (jetstream.JetStream, error) // makes the connection from a URL at first use; nil: js is the caller's
}

var capabilities = driver.Capabilities{
	Backend:       "nats",
	Ends:          driver.EndsTTL,
	MinTTL:        time.Second,
	TTLGrain:      time.Second,
	Token:         driver.TokenData,
	Fair:          driver.FairNone,
	Wake:          driver.WakeNotify,
	Failover:      driver.FailoverUnsafe,                                                         // with the default sync_interval, and with one replica
	RemovalNotice: func(ttl time.Duration) time.Duration { return ttl/3 + 100*time.Millisecond }, // by the next renewal
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }
