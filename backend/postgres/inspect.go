package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector from pg_locks and pg_stat_activity alone. The server knows a key, a session and the session's application_name. So
// Owner names the session that has the lock, and its client, not the claim: see sessionOwner. Token and Since are unknown.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	key, err := b.layout.key(name)
	if err != nil {
		return driver.Status{}, err
	}
	var found driver.Status
	err = b.server.lookAtLocks(ctx, func(ctx context.Context, i *inspector) (err error) {
		found, _, err = i.status(ctx, name, key)
		return err
	})
	if err != nil {
		return driver.Status{}, err
	}
	return found, nil
}

// List implements driver.Inspector. It is errors.ErrUnsupported, since a name cannot be had from its key, save with exact keys: these are the names, and
// foreign clients' locks are listed too. A name that is waited for and held by nobody is not listed.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if !b.layout.exact {
		return nil, fmt.Errorf("%w: the server keeps hashes of names, not the names", errors.ErrUnsupported)
	}
	var all []driver.Status
	err := b.server.lookAtLocks(ctx, func(ctx context.Context, i *inspector) error {
		locks, err := i.holding(ctx, "true")
		if err != nil {
			return err
		}
		waiters, err := i.waiting(ctx)
		if err != nil {
			return err
		}
		listed := make(map[string]bool) // several sessions can have one in shared mode
		for _, h := range locks {
			name := strconv.FormatInt(h.key, 10)
			if strings.HasPrefix(name, prefix) && !listed[name] {
				all = append(all, h.status(name, waiters.count(h.key)))
				listed[name] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// seen is a lock as the server shows it.
type seen struct {
	pid         int64
	application string
	key         int64
	shared      bool // only foreign clients lock so
}

// ours says whether the session belongs to a client of lockport.
func (h seen) ours() bool { return strings.HasPrefix(h.application, applicationPrefix) }

// owner is what stands for the holder.
func (h seen) owner() string {
	if client := strings.TrimSpace(strings.TrimPrefix(h.application, applicationPrefix)); h.ours() && client != "" && !h.shared {
		return sessionOwner(h.pid, client)
	}
	owner := fmt.Sprintf("pid %d (%s)", h.pid, oneLine(h.application))
	if h.shared {
		owner += ", in shared mode"
	}
	return owner
}

// sessionOwner has the form of a claim's owner id: the server's process in the place of the random bits, and then the client as in application_name, which
// the server cuts to 63 bytes.
func sessionOwner(pid int64, client string) string {
	return fmt.Sprintf("session-%024d:%s", pid, client)
}

func (h seen) status(name string, waiters int) driver.Status {
	return driver.Status{Name: name, Held: true, Owner: h.owner(), Foreign: !h.ours(), Waiters: waiters}
}

// status says who holds name, and on which session.
func (i *inspector) status(ctx context.Context, name string, key int64) (driver.Status, seen, error) {
	waiters, err := i.waiting(ctx)
	if err != nil {
		return driver.Status{}, seen{}, err
	}
	holders, err := i.holding(ctx, fmt.Sprintf("l.classid = %d AND l.objid = %d", uint32(key>>32), uint32(key)))
	if err != nil || len(holders) == 0 {
		return driver.Status{Name: name, Waiters: waiters.count(key)}, seen{}, err
	}
	return holders[0].status(name, waiters.count(key)), holders[0], nil
}
