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
	err = b.call(ctx, "Inspect", func(s *Server, now time.Time) error {
		for _, permits := range []bool{true, false} { // a held lock takes precedence
			if e := s.entry(keyOf(name, permits), now); e.held > 0 {
				st = e.status()
			}
		}
		return nil
	})
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	err = b.call(ctx, "List", func(s *Server, now time.Time) error {
		for key := range s.names {
			if e := s.entry(key, now); e.held > 0 && strings.HasPrefix(e.claims[0].req.Name, prefix) {
				all = append(all, e.status())
			}
		}
		return nil
	})
	return all, err
}

func (e *entry) status() driver.Status {
	st := e.claims[0].status()
	for _, other := range e.holders()[1:] {
		st.Others = append(st.Others, other.status())
	}
	return st
}

func (c *claim) status() driver.Status {
	return driver.Status{
		Name: c.req.Name, Held: true, Owner: c.req.Owner, Foreign: driver.OwnerClient(c.req.Owner) == "", Token: c.grant.Token,
		Since: c.since, Expires: c.expires, Waiters: len(c.entry.queue()), Shared: c.req.Shared, Permits: c.req.Permits,
	}
}

// Break implements driver.Breaker. The holder is told before it returns.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.call(ctx, "Break", func(s *Server, now time.Time) error {
		if !s.revoke(name, owner, fmt.Errorf("%w: it was broken by force", driver.ErrLost), now) {
			return fmt.Errorf("%w: this owner does not hold the name", driver.ErrLost)
		}
		return nil
	})
}

// Check implements driver.Checker. There is nothing to find.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	return nil, b.call(ctx, "Check", func(*Server, time.Time) error { return nil })
}

// Lose takes name from its holders, as an operator who deletes the key would. It tells them, with reason in the chain unless that is nil. The next
// waiter is granted the name. It returns whether the name was held.
func (s *Server) Lose(name string, reason error) bool {
	err := fmt.Errorf("%w: the server removed it", driver.ErrLost)
	if reason != nil {
		err = fmt.Errorf("%w: %w", driver.ErrLost, reason)
	}
	s.mu.Lock()
	defer s.unlock()
	return s.revoke(name, "", err, time.Now())
}

// LoseSilently takes name from its holder as Lose does, but without telling: the holder finds out when it renews or releases.
func (s *Server) LoseSilently(name string) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.revoke(name, "", nil, time.Now())
}

// revoke takes name from its holders, from owner alone if that is not empty, and tells them reason unless that is nil.
func (s *Server) revoke(name, owner string, reason error, now time.Time) (took bool) {
	for _, permits := range []bool{false, true} {
		for _, holder := range slices.Clone(s.entry(keyOf(name, permits), now).holders()) {
			if owner == "" || owner == holder.req.Owner {
				s.end(holder, reason, now)
				took = true
			}
		}
	}
	return took
}
