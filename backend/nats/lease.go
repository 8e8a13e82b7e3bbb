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
	return l.write(ctx, func() error { return l.b.mark(ctx, l.req.Name, releasedMarker, l.revision) })
}

// Renew implements driver.Renewer.
//
// What expires is replaced by the server with a marker that looks at no revision: a renewal that is carried out at that very moment is acknowledged, and
// lost. One whose answer came before the former validity had ended was carried out before.
func (l *lease) Renew(ctx context.Context) (time.Time, error) {
	var until time.Time
	err := l.write(ctx, func() error {
		sent, value := time.Now(), valueOf(l.req.Owner, l.ttl, l.grant.Token)
		revision, err := l.b.put(ctx, l.req.Name, value, l.ttl, l.revision)
		if err == nil {
			l.revision, until = revision, sent.Add(l.ttl)
		}
		return err
	})
	if err == nil && !time.Now().Before(l.until) {
		err = fmt.Errorf("%w: the answer to the renewal came after the claim's end", driver.ErrUnknown)
	}
	if err == nil {
		l.until = until
	}
	return l.until, err
}

// write calls put. If the key has another revision than the claim's last one, that may be of a renewal whose answer was lost.
func (l *lease) write(ctx context.Context, put func() error) error {
	for range attempts {
		if err := put(); err != errMoved {
			return err
		}
		was, err := l.b.read(ctx, l.req.Name)
		switch {
		case err != nil:
			return err
		case was.Held && was.Owner == l.req.Owner:
			l.revision = max(l.revision, was.revision)
		case was.Held && was.revision > l.revision:
			return fmt.Errorf("%w: %q has it now", driver.ErrLost, was.Owner)
		case was.revision == 0 || was.revision > l.revision: // otherwise the server that answered lags
			return fmt.Errorf("%w: its key is gone: it expired, or was deleted", driver.ErrLost)
		}
	}
	return fmt.Errorf("%w: others write the key at this moment", driver.ErrUnknown)
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
