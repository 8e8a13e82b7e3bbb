package nats

import (
	"context"
	"fmt"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// Notify implements driver.Notifier, by a watch of the key: an ephemeral consumer on the server. The watch begins with the key's current state.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for ; ctx.Err() == nil; time.Sleep(250 * time.Millisecond) { // the watch broke
			_ = b.watch(ctx, keyOf(req.Name), func(e jetstream.KeyValueEntry) bool {
				if e == nil || e.Operation() != jetstream.KeyValuePut {
					wake()
				}
				return true
			}, jetstream.MetaOnly())
		}
	}()
	return stop
}

// watch calls each with the keys' current values, then with nil, then with every change, until each returns false.
func (b *Backend) watch(ctx context.Context, keys string, each func(jetstream.KeyValueEntry) bool, opts ...jetstream.WatchOpt) error {
	return b.request(ctx, false, func(ctx context.Context, js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, b.bucket)
		if err != nil {
			return err
		}
		watcher, err := kv.Watch(ctx, keys, opts...) // ends with ctx, which ends with this request
		if err != nil {
			return err
		}
		updates := watcher.Updates()
		defer func() { go drain(updates) }()
		for {
			select {
			case e, open := <-updates:
				if !open {
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

// drain receives changes that come until the watcher has ended, milliseconds after its context: nats.go's goroutine must not block on them. If the
// context ended while the watch was being set up, nats.go may never close the channel. Drain then ends after a second: no goroutine may stay.
func drain(updates <-chan jetstream.KeyValueEntry) {
	for bound := time.After(time.Second); ; {
		select {
		case _, open := <-updates:
			if !open {
				return
			}
		case <-bound:
			return
		}
	}
}

// List implements driver.Inspector. It reads the whole bucket by a watch. A key that changes meanwhile comes again, after the others. nats.go counts
// that as one more, so its nil may come before the last key: what is missing then is read one by one.
func (b *Backend) List(ctx context.Context, start string) (all []driver.Status, err error) {
	seen := make(map[string]jetstream.KeyValueEntry)
	err = b.watch(ctx, ">", func(e jetstream.KeyValueEntry) bool {
		if e != nil {
			seen[b.subject(e.Key())] = e
		}
		return e != nil
	})
	if err != nil {
		return nil, err
	}
	state, err := b.state(ctx, jetstream.WithSubjectFilter(b.subject(">")))
	for subject := range state.Subjects { // those of markers too
		key := strings.TrimPrefix(subject, b.subject(""))
		name, bad := nameOf(key)
		if bad != nil || keyOf(name) != key || !strings.HasPrefix(name, start) {
			continue
		}
		st := driver.Status{}
		if e := seen[subject]; e == nil {
			if st, _, err = b.read(ctx, name); err != nil {
				return all, err
			}
		} else if e.Operation() == jetstream.KeyValuePut {
			st = statusOf(name, string(e.Value()), e.Revision(), e.Created())
		}
		if st.Held {
			all = append(all, st)
		}
	}
	return all, err
}

// Inspect implements driver.Inspector. The server does not know since when a renewed claim is held.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, _, err := b.read(ctx, name)
	return st, err
}

// Break implements driver.Breaker. It begins with a revision that no key has, so that it reads the key.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	_, err := b.replace(ctx, name, "", releasedMarker, driver.MaxToken, func(now driver.Status, revision uint64) (uint64, error) {
		if !now.Held || now.Owner != owner {
			return 0, fmt.Errorf("%w: that owner no longer holds it", driver.ErrLost)
		}
		return revision, nil
	})
	return err
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	var all notice.List
	err := b.request(ctx, false, func(ctx context.Context, js jetstream.JetStream) error {
		sent := time.Now()
		info, err := b.verify(ctx, js)
		if err != nil {
			return err
		}
		all.Add(notice.Clock(notice.ClockOffset(sent, info.TimeStamp, time.Now()))...)
		all.Add(notice.Quorum(info.Config.Replicas)...)
		nc := js.Conn()
		if _, clear := nc.TLSConnectionState(); clear != nil && (nc.Opts.Password+nc.Opts.Token != "" || strings.Contains(nc.ConnectedUrl(), "@")) {
			all.Add(notice.InTheClear(nc.ConnectedAddr())...)
		}
		return nil
	})
	return all, err
}
