package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

const (
	// For how long the marker stays of a claim that was released, and of one that was abandoned: a claim that arrives meanwhile expects another revision.
	releasedMarker, abandonedMarker = time.Minute, time.Hour
	// When a waiter looks again although nobody told it to: as the safety net under the watch, and while others claim the name.
	poll, pollRaced = time.Second, 20 * time.Millisecond
	// maxTTL is far above what makes sense, and far below what overflows.
	maxTTL = 10 * 365 * 24 * time.Hour
	// maxMarkers is how many markers are remembered.
	maxMarkers = 4096
)

// TryAcquire implements driver.Backend: one request, and two more for a name that another client released within the last minute.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL < time.Second || req.TTL > maxTTL {
		return nil, fmt.Errorf("%w: the TTL %v is not from 1s to %v", driver.ErrRefused, req.TTL, maxTTL)
	}
	ttl := (req.TTL + time.Second - 1).Truncate(time.Second)
	b.mu.Lock()
	last := b.markers[req.Name]
	b.mu.Unlock()
	b.asked.Store(req.Owner, last)
	revision, sent, err := b.replace(ctx, req.Name, valueOf(req.Owner, ttl, 0), ttl, last, func(now record) (uint64, error) {
		if now.Held {
			return 0, &driver.HeldError{Poll: poll, Holder: now.Status}
		}
		b.asked.Store(req.Owner, now.revision)
		return now.revision, nil
	})
	if !errors.Is(err, driver.ErrUnknown) {
		b.asked.Delete(req.Owner)
	}
	switch {
	case err == errRaced:
		return nil, &driver.HeldError{Poll: pollRaced}
	case err != nil:
		return nil, err
	}
	until := sent.Add(ttl)
	return &lease{b: b, req: req, ttl: ttl, revision: revision, until: until, grant: driver.Grant{Token: revision, Until: until}}, nil
}

// Abandon implements driver.Backend. It writes a marker in place of the claim, or of what the claim expected to find, so that this finds another revision
// if it arrives later. Where somebody else has the name since, it finds that already.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	asked, _ := b.asked.Load(req.Owner)
	last, _ := asked.(uint64)
	_, _, err := b.replace(ctx, req.Name, "", abandonedMarker, last, func(now record) (uint64, error) {
		switch {
		case !now.Held || now.Owner == req.Owner:
			return now.revision, nil
		case now.revision > last:
			return 0, driver.ErrHeld
		}
		return last, nil // the server that answered lags
	})
	if err == nil || errors.Is(err, driver.ErrHeld) {
		b.asked.Delete(req.Owner)
		return nil
	}
	return err
}

// remember keeps the revision of a marker: the next claim of the name then needs one request.
func (b *Backend) remember(name string, revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.markers) >= maxMarkers {
		clear(b.markers)
	}
	b.markers[name] = revision
}
