package nats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// lease is a granted claim. The client calls one of its methods at a time.
type lease struct {
	b        *Backend
	req      driver.Request
	ttl      time.Duration
	grant    driver.Grant
	revision uint64    // the last one of this claim that is known
	until    time.Time // until when it is valid
}

// Grant implements driver.Lease.
func (l *lease) Grant() driver.Grant { return l.grant }

// Release implements driver.Lease, in one request.
func (l *lease) Release(ctx context.Context) error {
	_, err := l.write(ctx, "", releasedMarker)
	return err
}

// Renew implements driver.Renewer.
//
// What expires is replaced by the server with a marker that looks at no revision: a renewal that is carried out at that very moment is acknowledged, and
// lost. One whose answer came before the former validity had ended was carried out before.
func (l *lease) Renew(ctx context.Context) (time.Time, error) {
	sent, err := l.write(ctx, valueOf(l.req.Owner, l.ttl, l.grant.Token), l.ttl)
	if err == nil && !time.Now().Before(l.until) {
		err = fmt.Errorf("%w: the answer to the renewal came after the claim's end", driver.ErrUnknown)
	}
	if err == nil {
		l.until = sent.Add(l.ttl)
	}
	return l.until, err
}

// write replaces the claim. Another revision than the last one that is known may be of a renewal whose answer was lost.
func (l *lease) write(ctx context.Context, value string, ttl time.Duration) (sent time.Time, err error) {
	revision, sent, err := l.b.replace(ctx, l.req.Name, value, ttl, l.revision, func(now record) (uint64, error) {
		switch {
		case now.Held && now.Owner == l.req.Owner:
			l.revision = max(l.revision, now.revision)
		case now.Held && now.revision > l.revision:
			return 0, fmt.Errorf("%w: %q has it now", driver.ErrLost, now.Owner)
		case now.revision == 0 || now.revision > l.revision: // otherwise the server that answered lags
			return 0, fmt.Errorf("%w: its key is gone: it expired, or was deleted", driver.ErrLost)
		}
		return l.revision, nil
	})
	if err == nil {
		l.revision = revision
	}
	return sent, err
}

// renewers is how many renewals are under way at a time. They share the connection's writes.
const renewers = 256

// RenewBatch implements driver.BatchRenewer: a request for each lease, 256 of them under way at a time on the one connection.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	var workers sync.WaitGroup
	for first := range min(renewers, len(leases)) {
		workers.Go(func() {
			for i := first; i < len(leases); i += renewers {
				results[i].Until, results[i].Err = leases[i].(*lease).Renew(ctx)
			}
		})
	}
	workers.Wait()
}
