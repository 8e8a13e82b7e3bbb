package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// Inspect implements driver.Inspector. The server does not know since when a claim is held that was renewed.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	r, err := b.read(ctx, name)
	return r.Status, err
}

// List implements driver.Inspector. It reads the whole bucket.
func (b *Backend) List(ctx context.Context, start string) (all []driver.Status, err error) {
	err = b.watch(ctx, ">", func(e jetstream.KeyValueEntry) bool {
		if e == nil {
			return false
		}
		if name, ok := nameOf(e.Key()); ok && strings.HasPrefix(name, start) {
			all = append(all, recordOf(name, string(e.Value()), e.Revision(), e.Created()).Status)
		}
		return true
	}, jetstream.IgnoreDeletes())
	return all, err
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	has := func(now record) (uint64, error) {
		if !now.Held || now.Owner != owner {
			return 0, fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
		}
		return now.revision, nil
	}
	now, err := b.read(ctx, name)
	if err != nil {
		return err
	}
	last, err := has(now)
	if err == nil {
		_, _, err = b.replace(ctx, name, "", releasedMarker, last, has) // again after a renewal
	}
	return err
}

// Check implements driver.Checker. It writes a marker to a key that nobody uses.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	var all notice.List
	err := b.request(ctx, false, func(ctx context.Context, js jetstream.JetStream) error {
		before := time.Now()
		info, err := b.verify(ctx, js)
		if err != nil {
			return err
		}
		if off := notice.ClockOffset(before, info.TimeStamp, time.Now()); off.Abs() >= notice.ClockTolerance {
			all.Add(driver.Notice{ID: "clock-offset", Text: fmt.Sprintf("The server's clock is off this machine's by %v: one of them is not synchronised. "+
				"Locks expire by the clock of the server that leads the bucket; one that is ahead ends them early.", off.Round(10*time.Millisecond)),
				Remedy: "Synchronise the clocks of all servers (chrony, ntpd, systemd-timesyncd), by slewing rather than stepping."})
		}
		if n := info.Config.Replicas; n < 3 {
			all.Add(driver.Notice{ID: "replication", Text: fmt.Sprintf("The bucket has %d replica(s): while a server with one is away, no lock can be had or "+
				"renewed, and locks are forgotten with its disk.", n), Remedy: "Use a cluster, and a bucket with three replicas."})
		}
		if o := js.Conn().Opts; o.TLSConfig == nil && o.Password+o.Token != "" {
			all.Add(notice.InTheClear(js.Conn().ConnectedAddr())...)
		}
		return nil
	})
	if err == nil {
		_, err = b.put(ctx, "lockport-check-"+rand.Text(), "", time.Second, 0)
	}
	if errors.Is(err, driver.ErrUnknown) {
		err = errors.Join(fmt.Errorf("%w: no answer to a write: may this user write $KV.%s.>?", driver.ErrUnavailable, b.bucket), ctx.Err())
	}
	return all, err
}
