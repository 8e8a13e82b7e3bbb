package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// How long markers stay: of released claims, and of abandoned or expired ones. Meanwhile a late claim fails: it expects another revision.
const releasedMarker, abandonedMarker = time.Minute, time.Hour

// TryAcquire implements driver.Backend: one request, or three if the name's marker is another than this client's last:
// another client released the name within the last minute, or the marker has expired.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL < capabilities.MinTTL {
		return nil, fmt.Errorf("%w: the TTL %v is below %v", driver.ErrRefused, req.TTL, capabilities.MinTTL)
	}
	ttl := (req.TTL + time.Second - 1).Truncate(time.Second)
	expected := b.free.get(req.Name)
	grant, err := b.replace(ctx, req.Name, valueOf(req.Owner, ttl, 0), ttl, expected, func(now driver.Status, revision uint64) (uint64, error) {
		if now.Held {
			return 0, &driver.HeldError{Poll: time.Second, Holder: now}
		}
		return revision, nil
	})
	if err != nil {
		return nil, err
	}
	return &lease{b: b, req: req, ttl: ttl, grant: grant, last: grant}, nil
}

// Abandon implements driver.Backend. It replaces the claim, or the revision that the claim expected, with a marker. If the claim arrives later,
// it finds another revision. If somebody else has taken the name since, the claim fails anyway.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	expected := b.free.get(req.Name)
	_, err := b.replace(ctx, req.Name, "", abandonedMarker, expected, func(now driver.Status, revision uint64) (uint64, error) {
		switch {
		case !now.Held || now.Owner == req.Owner:
			return revision, nil
		case revision > expected:
			return 0, driver.ErrHeld
		}
		return 0, errLags
	})
	if errors.Is(err, driver.ErrHeld) {
		return nil
	}
	return err
}

// lease is a granted claim. The client calls one of its methods at a time.
type lease struct {
	b           *Backend
	req         driver.Request
	ttl         time.Duration
	grant, last driver.Grant // last is the revision and validity of the last known write
}

func (l *lease) Grant() driver.Grant { return l.grant }

// Release implements driver.Lease, in one request.
func (l *lease) Release(ctx context.Context) error {
	_, err := l.write(ctx, "", releasedMarker)
	return err
}

// Renew implements driver.Renewer.
//
// When a key expires, the server replaces it with a marker without comparing revisions. It acknowledges a renewal at that very moment, and
// loses it. If the answer came before the former validity ended, the renewal came before the expiry.
func (l *lease) Renew(ctx context.Context) (time.Time, error) {
	until, err := l.write(ctx, valueOf(l.req.Owner, l.ttl, l.grant.Token), l.ttl)
	if err == nil && !time.Now().Before(l.last.Until) {
		err = fmt.Errorf("%w: the renewal was answered after the claim's end", driver.ErrUnknown)
	}
	if err == nil {
		l.last.Until = until
	}
	return l.last.Until, err
}

// write replaces the claim. If the revision is not the last known one, it may be that of a renewal whose answer was lost.
func (l *lease) write(ctx context.Context, value string, ttl time.Duration) (until time.Time, err error) {
	written, err := l.b.replace(ctx, l.req.Name, value, ttl, l.last.Token, func(now driver.Status, revision uint64) (uint64, error) {
		switch {
		case revision <= l.last.Token && (revision > 0 || l.b.lags(ctx, l.last.Token)): // 0: there is no key
			return 0, errLags
		case now.Owner != l.req.Owner:
			return 0, fmt.Errorf("%w: its key expired, was deleted, or belongs to %q", driver.ErrLost, now.Owner)
		}
		l.last.Token = revision
		return revision, nil
	})
	if err == nil {
		l.last.Token = written.Token
	}
	return written.Until, err
}
