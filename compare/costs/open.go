package costs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/measure"
)

// WorkerMain is the first line of main, and of TestMain. In a process that was started as a worker it works and exits; in any other process it returns at
// once. The program must import the backends.
func WorkerMain() { measure.WorkerMain(openLocker) }

// openTime bounds the opening of a URL.
const openTime = 10 * time.Second

// openLocker opens what a worker measures: the backend of a URL, or the lock of an article on the same server.
func openLocker(ctx context.Context, c measure.Config) (measure.Locker, error) {
	if c.Library != "" {
		return openArticle(ctx, c)
	}
	client, err := open(ctx, c.URL, c.TTL)
	if err != nil {
		return nil, err
	}
	l := &locker{client: client}
	if c.Pings {
		l.pinger, err = openPinger(ctx, c.URL)
	}
	return l, err
}

// open opens a client. It does not log what the server's settings endanger: doctor tells that.
func open(ctx context.Context, url string, ttl time.Duration) (*lockport.Client, error) {
	return lockport.Open(ctx, url, lockport.TTL(ttl), lockport.Label("compare"), lockport.Logger(slog.New(slog.DiscardHandler)))
}

// locker is a lockport client. It is a measure.Pinger too.
type locker struct {
	client *lockport.Client
	*pinger
}

func (l *locker) Acquire(ctx context.Context, name string) (measure.Hold, error) {
	return l.client.Acquire(ctx, name)
}

func (l *locker) Try(ctx context.Context, name string) (measure.Hold, error) {
	return l.client.TryAcquire(ctx, name)
}

func (l *locker) Close() error {
	if l.pinger != nil {
		l.pinger.close()
	}
	return l.client.Close()
}

// spinning is the lock of an article whose waiters are shown for comparison.
const spinning = "asks-every-five-milliseconds"

// article is the lock called name of the articles.
func article(name string) (articles.Exhibit, error) {
	all := articles.All()
	i := slices.IndexFunc(all, func(x articles.Exhibit) bool { return x.Name == name })
	if i < 0 {
		return articles.Exhibit{}, fmt.Errorf("no article has a lock %q", name)
	}
	return all[i], nil
}

func openArticle(ctx context.Context, c measure.Config) (measure.Locker, error) {
	x, err := article(c.Library)
	if err != nil {
		return nil, err
	}
	b, err := x.Open(ctx, c.URL)
	if err != nil {
		return nil, err
	}
	waiter, ok := driver.As[driver.Waiter](b)
	if !ok {
		return nil, errors.New("the lock has no way of its own to wait")
	}
	client, err := lockport.New(b, lockport.TTL(c.TTL))
	return &spinner{locker{client: client}, waiter, c.TTL}, err
}

// spinner is an article's lock. It has no queue for the callers of one process: each of them asks the server.
type spinner struct {
	locker
	waiter driver.Waiter
	ttl    time.Duration
}

func (s *spinner) Acquire(ctx context.Context, name string) (measure.Hold, error) {
	if h, err := s.client.TryAcquire(ctx, name); err == nil {
		return h, nil // which the client renews
	}
	req := driver.Request{Name: name, Owner: rand.Text() + ":compare", TTL: s.ttl}
	lease, err := s.waiter.Wait(ctx, req)
	if err == nil {
		return lease, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.client.Backend().Abandon(ctx, req)
	return nil, err
}
