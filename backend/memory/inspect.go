package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	st.Name = name
	err = b.call(ctx, func(s *Server, now time.Time) error {
		for _, permits := range []bool{true, false} { // the lock counts, if it is held
			if e := s.entry(entryKey{name, permits}, now); e != nil {
				st = e.status()
			}
		}
		return nil
	})
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	err = b.call(ctx, func(s *Server, now time.Time) error {
		for key := range s.names {
			if e := s.entry(key, now); e != nil && strings.HasPrefix(key.name, prefix) {
				all = append(all, e.status())
			}
		}
		return nil
	})
	return all, err
}

func (e *entry) status() driver.Status {
	st := e.holders[0].status()
	for _, other := range e.holders[1:] {
		st.Others = append(st.Others, other.status())
	}
	return st
}

func (c *claim) status() driver.Status {
	return driver.Status{
		Name: c.req.Name, Held: true, Owner: c.req.Owner, Foreign: driver.OwnerClient(c.req.Owner) == "", Token: c.grant.Token,
		Since: c.since, Expires: c.expires, Waiters: c.entry.queue.Len(), Shared: c.req.Shared, Permits: c.req.Permits,
	}
}

// Break implements driver.Breaker. The holder has been told when it returns.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	if !b.server.take(name, owner, fmt.Errorf("%w: it was broken by force", driver.ErrLost)) {
		return fmt.Errorf("%w: this owner does not hold the name", driver.ErrLost)
	}
	return nil
}

// Check implements driver.Checker. There is nothing to find.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) { return nil, b.begin(ctx) }

// Lose takes name from its holders, as an operator who deletes the key would, and tells them, with reason in the chain; nil
// is no particular one. The next who waits is granted the name. It returns whether the name was held.
func (s *Server) Lose(name string, reason error) bool {
	err := fmt.Errorf("%w: the server removed it", driver.ErrLost)
	if reason != nil {
		err = fmt.Errorf("%w: %w", driver.ErrLost, reason)
	}
	return s.take(name, "", err)
}

// LoseSilently takes name from its holder as Lose does, without telling: the holder learns of it when it renews or releases.
func (s *Server) LoseSilently(name string) bool { return s.take(name, "", nil) }

// take takes name from its holders, from owner alone unless that is empty, and tells reason if that is not nil.
func (s *Server) take(name, owner string, reason error) bool {
	s.lock()
	defer s.unlock()
	now := time.Now()
	took := false
	for _, permits := range []bool{false, true} {
		e := s.entry(entryKey{name, permits}, now)
		if e == nil {
			continue
		}
		for _, holder := range slices.Clone(e.holders) {
			if owner == "" || owner == holder.req.Owner {
				s.end(holder, reason, now)
				took = true
			}
		}
	}
	return took
}
