package costs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/measure"
)

// WorkerMain is the first line of main, and of TestMain. In a process that was started as a worker it works and exits; in any other process it returns at
// once. The program must import the backends.
func WorkerMain() {
	measure.WorkerMain(func(ctx context.Context, c measure.Config) (measure.Locker, error) {
		switch c.Library {
		case "":
			return measure.Open(ctx, c, lockport.Label("compare"))
		case pinging:
			return openPing(ctx, c.URL)
		}
		return openArticle(ctx, c)
	})
}

// article is the lock called name of the articles.
func article(name string) (articles.Exhibit, error) {
	all := articles.All()
	i := slices.IndexFunc(all, func(x articles.Exhibit) bool { return x.Name == name })
	if i < 0 {
		return articles.Exhibit{}, fmt.Errorf("no article has a lock %q", name)
	}
	return all[i], nil
}

// openArticle opens the lock of an article on the same server. It has no queue for the callers of one process: each of them asks the server.
func openArticle(ctx context.Context, c measure.Config) (l measure.Locker, err error) {
	x, err := article(c.Library)
	if err != nil {
		return l, err
	}
	b, err := x.Open(ctx, c.URL)
	if err != nil {
		return l, err
	}
	waiter, ok := driver.As[driver.Waiter](b)
	if !ok {
		return l, errors.New("the lock has no way of its own to wait")
	}
	client, err := lockport.New(b, lockport.TTL(c.TTL))
	if err != nil {
		return l, err
	}
	return measure.Locker{Close: client.Close, Acquire: func(ctx context.Context, name string, _ bool) (measure.Release, error) {
		if lock, err := client.TryAcquire(ctx, name); err == nil {
			return lock.Release, nil // the client renews it
		}
		req := driver.Request{Name: name, Owner: rand.Text() + ":compare", TTL: c.TTL}
		lease, err := waiter.Wait(ctx, req)
		if err == nil {
			return lease.Release, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = b.Abandon(ctx, req)
		return nil, err
	}}, nil
}
