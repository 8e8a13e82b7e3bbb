package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

const (
	// attempts is how often a write that another overtook is tried on the revision that is there now.
	attempts = 3
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
	for range attempts {
		b.asked.Store(req.Owner, last)
		sent := time.Now()
		revision, err := b.put(ctx, req.Name, valueOf(req.Owner, ttl, 0), ttl, last)
		if !errors.Is(err, driver.ErrUnknown) {
			b.asked.Delete(req.Owner)
		}
		switch {
		case err == nil:
			until := sent.Add(ttl)
			return &lease{b: b, req: req, ttl: ttl, revision: revision, until: until, grant: driver.Grant{Token: revision, Until: until}}, nil
		case err != errMoved:
			return nil, err
		}
		was, err := b.read(ctx, req.Name)
		if err != nil {
			return nil, err
		}
		if was.Held {
			return nil, &driver.HeldError{Poll: poll, Holder: was.Status}
		}
		last = was.revision
	}
	return nil, &driver.HeldError{Poll: pollRaced}
}

// Abandon implements driver.Backend. It ends the claim if it is there, and otherwise writes a marker, so that the claim finds another revision than it
// expects if it arrives later. Where somebody else has the name since, it finds that already.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	for range attempts {
		was, err := b.read(ctx, req.Name)
		if err != nil {
			return err
		}
		if was.Held && was.Owner != req.Owner {
			last, _ := b.asked.Load(req.Owner)
			if last, _ := last.(uint64); was.revision <= last {
				continue // the server that answered lags
			}
		} else if err = b.mark(ctx, req.Name, abandonedMarker, was.revision); err == errMoved {
			continue
		}
		if err == nil {
			b.asked.Delete(req.Owner)
		}
		return err
	}
	return fmt.Errorf("%w: others write the key at this moment", driver.ErrUnknown)
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
