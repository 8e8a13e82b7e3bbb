package lockport

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

type Token uint64

type Locker interface {
	Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)
	TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)
	Close() error
}

type Client struct{}

func newConfig(opts []Option) (config, error)               { panic("soon") }
func New(b driver.Backend, opts ...Option) (*Client, error) { panic("soon") }
func (c *Client) Check(ctx context.Context) error           { panic("soon") }
func (c *Client) Notices() []driver.Notice                  { panic("soon") }
func (c *Client) Capabilities() driver.Capabilities         { panic("soon") }
func (c *Client) Backend() driver.Backend                   { panic("soon") }
func (c *Client) Close() error                              { panic("soon") }
func (c *Client) Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	panic("soon")
}
func (c *Client) TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error) {
	panic("soon")
}

type Lock struct{}

func (l *Lock) Name() string                                                         { panic("soon") }
func (l *Lock) Owner() string                                                        { panic("soon") }
func (l *Lock) Token() (Token, bool)                                                 { panic("soon") }
func (l *Lock) Valid() bool                                                          { panic("soon") }
func (l *Lock) Deadline() (time.Time, bool)                                          { panic("soon") }
func (l *Lock) Lost() <-chan struct{}                                                { panic("soon") }
func (l *Lock) Err() error                                                           { panic("soon") }
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) { panic("soon") }
func (l *Lock) Release(ctx context.Context) error                                    { panic("soon") }
func (l *Lock) As(target any) bool                                                   { panic("soon") }

func Do(ctx context.Context, l Locker, name string, fn func(context.Context, *Lock) error, opts ...AcquireOption) error {
	panic("soon")
}
