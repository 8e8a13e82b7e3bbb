package memory

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	st.Name = name
	err = b.call(ctx, func(s *Server, now time.Time) error {
		s.expire(s.names[name], now)
		if e := s.names[name]; e != nil {
			st = e.status()
		}
		return nil
	})
	return st, err
}

// List implements driver.Inspector.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	err = b.call(ctx, func(s *Server, now time.Time) error {
		for name, e := range s.names {
			if s.expire(e, now); e.holder != nil && strings.HasPrefix(name, prefix) {
				all = append(all, e.status())
			}
		}
		return nil
	})
	return all, err
}

func (e *entry) status() driver.Status {
	c := e.holder
	return driver.Status{
		Name: e.name, Held: true, Owner: c.req.Owner, Foreign: driver.OwnerClient(c.req.Owner) == "", Token: c.grant.Token,
		Since: c.since, Expires: c.expires, Waiters: e.queue.Len(),
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

// Lose takes name from its holder, as an operator who deletes the key would, and tells the holder, with reason in the chain; nil
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

// take takes name from its holder, who must be owner unless that is empty, and tells reason if that is not nil.
func (s *Server) take(name, owner string, reason error) bool {
	s.lock()
	defer s.unlock()
	now := time.Now()
	s.expire(s.names[name], now)
	e := s.names[name]
	if e == nil || owner != "" && owner != e.holder.req.Owner {
		return false
	}
	s.end(e.holder, reason, now)
	return true
}
