package nats

import (
	"context"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/driver"
)

// retryWatch is the pause before a watch that broke is begun again.
const retryWatch = 250 * time.Millisecond

// Notify implements driver.Notifier, by a watch of the key: an ephemeral consumer at the server. It begins with what the key has by then.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			held := false
			_ = b.watch(ctx, keyOf(req.Name), func(e jetstream.KeyValueEntry) bool {
				if e != nil {
					held = e.Operation() == jetstream.KeyValuePut
				}
				if e != nil && !held {
					b.remember(req.Name, e.Revision())
				}
				if !held {
					wake()
				}
				return true
			}, jetstream.MetaOnly())
			select {
			case <-time.After(retryWatch):
			case <-ctx.Done():
			}
		}
	}()
	return stop
}

// watch calls each with what keys have, with nil when all of that has been told, and with what happens then, until it returns false.
func (b *Backend) watch(ctx context.Context, keys string, each func(jetstream.KeyValueEntry) bool, opts ...jetstream.WatchOpt) error {
	return b.request(ctx, false, func(ctx context.Context, js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, b.bucket)
		if err != nil {
			return err
		}
		watcher, err := kv.Watch(ctx, keys, opts...) // it stops when ctx ends
		if err != nil {
			return err
		}
		for {
			select {
			case e, ok := <-watcher.Updates():
				if !ok {
					return natsgo.ErrConnectionClosed
				}
				if !each(e) {
					return nil
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}
